"""Finds what to change: predicts recipes, then runs the best few if the GPU is in this machine."""

from __future__ import annotations

import time
from dataclasses import replace

from memorymark.advice.compiling import Compiling
from memorymark.advice.confirming import Confirming
from memorymark.advice.families import Families
from memorymark.advice.inquiry import Inquiry, speed
from memorymark.advice.screening import Screening
from memorymark.advice.strategies import Strategies
from memorymark.engine.analyze import least_bytes, price_of
from memorymark.engine.site import Site
from memorymark.errors import DoesNotFitError, MemoryMarkError, WorkerLostError
from memorymark.events import OnEvent
from memorymark.messages import Message
from memorymark.question.limits import MOST_TOGETHER
from memorymark.question.question import Question
from memorymark.results.advice import Advice
from memorymark.results.cost import with_hours_of_run
from memorymark.results.option import TrainingOption
from memorymark.results.trial import Trial
from memorymark.units import format_bytes


def advise(question: Question, site: Site, on_event: OnEvent) -> Advice:
    """Returns the advice for a training; ``site`` is where steps are predicted and run."""
    inquiry, start = Inquiry(question, site, on_event), time.perf_counter()
    screening, confirming = Screening(inquiry), Confirming(inquiry)
    families = Families(inquiry, screening)
    try:
        several = question.request.recipe.gpus > 1
        now, options = Strategies(inquiry, screening).options() if several else screening.options()
        fits = screening.start is not None
        if not fits and not several:
            options = _smaller(screening, families)
        screened = time.perf_counter()
        measured = now if now and now.source == "measured" else None
        if inquiry.gpu is not None:
            now, measured, options = confirming.confirm(now, options)
            if now is None and not options and fits:  # against the prediction
                _, _, options = confirming.confirm(None, _smaller(screening, families))
        if inquiry.gpu is not None or inquiry.info.source == "measured":
            inquiry.close()  # compile in a fresh process, as a script would
        options += Compiling(inquiry, confirming).options(options) if not several else []
        found = families.found(options)
    finally:
        inquiry.close()
    if not several:  # of those, slower ones are worth seeing too
        options = [option for option in options if not _loses(inquiry, option, now, measured)]
    if now is None and not options:
        raise _nothing_fits(inquiry)
    done = time.perf_counter()
    return Advice(
        request=question.request,
        info=inquiry.info,
        current_batch_size=question.current_batch_size,
        options=tuple(options),
        families=found,
        refused=tuple(inquiry.refused),
        faults=tuple(inquiry.faults),
        predicted=now if now and now.source == "predicted" else None,
        measured=measured,
        margin=question.margin,
        usage=with_hours_of_run(question.usage, measured or now),
        price=price_of(question, inquiry.info),
        seconds={"screen": screened - start, "confirm": done - screened, "total": done - start},
    )


def _smaller(screening: Screening, families: Families) -> list[TrainingOption]:
    """Returns options that fit where today's recipe does not, smallest change first."""
    screening.does_not_fit()
    return list(families.smaller() if families.ids else screening.smaller())


def _loses(inquiry: Inquiry, option: TrainingOption, now: Trial | None, measured: Trial | None) -> bool:
    """Tells whether an option is slower than today's training; if so, records why it is refused."""
    today, then = (measured, option.measured) if measured and option.measured else (now, option.predicted)
    if today is None or then is None or speed(then) >= speed(today):
        return False
    percent = 100 * (1 - speed(then) / speed(today))
    memory = format_bytes(inquiry.info.held_bytes(then))
    inquiry.refuse(option.changes, f"loses {percent:.0f} %, {then.source}; batch {then.batch_size} takes {memory}.")
    return True


def _nothing_fits(inquiry: Inquiry) -> MemoryMarkError:
    if inquiry.faults:  # one of them might have fitted
        first = inquiry.faults[0]
        return WorkerLostError(f"nothing was found to fit, but {first.title} could not be checked: {first.reason}")
    name, capacity = inquiry.question.request.entry.name, format_bytes(inquiry.info.target_bytes)
    tried = [one for one in inquiry.refused if one.does_not_fit]
    last = (tried or inquiry.refused)[-1]  # the largest change of all
    return DoesNotFitError(
        f"none of the {len(inquiry.refused)} changes tried makes {name} fit {capacity}: even with {last.title} it "
        f"{last.why}",
        hint=_more(inquiry) if inquiry.today.recipe.gpus > 1 else "take a larger GPU",
        info=inquiry.info,
    )


def _more(inquiry: Inquiry) -> Message:
    """Says how many GPUs hold a part each of the weights, gradients and state, and something beside."""
    request, gpus = inquiry.today, inquiry.today.recipe.gpus
    for times in (2**power for power in range(1, 12) if gpus << power <= MOST_TOGETHER):
        recipe = replace(request.recipe, gpus=gpus * times, strategy="fsdp", tensor_parallel=1)
        if least_bytes(replace(request, recipe=recipe), inquiry.info) <= inquiry.safe_bytes / 2:
            return Message("take {gpus:{enough}} or more, or larger ones", enough=gpus * times)
    return Message("take more {gpus}, or larger ones")
