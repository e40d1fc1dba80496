"""Finds what to change: recipes are predicted first, and the best few run where the GPU is here."""

from __future__ import annotations

import time

from memorymark.advice.advice import Advice, Option
from memorymark.advice.compiling import Compiling
from memorymark.advice.confirming import Confirming
from memorymark.advice.inquiry import Inquiry, speed
from memorymark.advice.screening import Screening
from memorymark.analyzing import price_of
from memorymark.errors import DoesNotFitError, MemoryMarkError, WorkerLostError
from memorymark.events import OnEvent
from memorymark.question import Question
from memorymark.site import Site
from memorymark.trial import Trial
from memorymark.units import format_bytes


def advise(question: Question, site: Site, on_event: OnEvent) -> Advice:
    """The advice for a training; ``site`` is where steps are predicted and run."""
    inquiry, start = Inquiry(question, site, on_event), time.perf_counter()
    screening, confirming = Screening(inquiry), Confirming(inquiry)
    try:
        now, options = screening.options()
        screened = time.perf_counter()
        measured = now if now and now.source == "measured" else None
        if inquiry.gpu is not None:
            now, measured, options = confirming.confirm(now, options)
            if now is None and not options:
                _, _, options = confirming.confirm(None, screening.smaller())
        inquiry.close()  # what is compiled is so in a fresh process, as a script would be
        options += Compiling(inquiry, confirming).options(options)
    finally:
        inquiry.close()
    options = [option for option in options if not _loses(inquiry, option, now, measured)]
    if now is None and not options:
        raise _nothing_fits(inquiry)
    done = time.perf_counter()
    return Advice(
        request=question.request,
        info=inquiry.info,
        current_batch_size=question.current_batch_size,
        options=tuple(options),
        refused=tuple(inquiry.refused),
        faults=tuple(inquiry.faults),
        predicted=now if now and now.source == "predicted" else None,
        measured=measured,
        margin=question.margin,
        usage=question.usage,
        price=price_of(question, inquiry.info),
        seconds={"screen": screened - start, "confirm": done - screened, "total": done - start},
    )


def _loses(inquiry: Inquiry, option: Option, now: Trial | None, measured: Trial | None) -> bool:
    """Whether an option is slower than today, and so no advice; the reason is kept."""
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
        return WorkerLostError(f"no way to fit was found, but {first.title} could not be looked at: {first.reason}")
    name, capacity = inquiry.question.request.entry.name, format_bytes(inquiry.info.target_bytes)
    tried = [one for one in inquiry.refused if one.why.startswith("does not fit")]
    last = (tried or inquiry.refused)[-1]  # the greatest change of all
    return DoesNotFitError(
        f"{name} fits {capacity} by none of the {len(inquiry.refused)} ways looked at: even with {last.title} it "
        f"{last.why.removesuffix('.')}",
        hint="take a larger GPU; weights in 4 bits, as QLoRA has them, are not covered yet",
        info=inquiry.info,
    )
