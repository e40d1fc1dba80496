"""One analysis with one probe: search, time, sum up."""

from __future__ import annotations

import time

from memorymark.analysis import Analysis, predicted_interval
from memorymark.catalog import Price
from memorymark.errors import DoesNotFitError, LaunchLimitError
from memorymark.events import OnEvent, StageStarted
from memorymark.own import OwnRequest
from memorymark.probe import Probe, ProbeInfo
from memorymark.question import Question
from memorymark.request import Request
from memorymark.search import NO_LIMIT, size_within
from memorymark.searching import TrialLog, search_with
from memorymark.throughput import measure_curve
from memorymark.trial import Trial, why_nothing_fits
from memorymark.units import format_bytes


def analyze_with(question: Question, probe: Probe, on_event: OnEvent, start: float) -> Analysis:
    """Searches, times and analyses; ``start`` is when the work began."""
    info, log = probe.info, TrialLog(on_event)
    with log.kept_on_error():
        ready = time.perf_counter()
        found = search_with(probe, question.max_batch or NO_LIMIT, log)
        if found.maximum == 0:
            raise _does_not_fit(question.request, info, found.trials)
        searched = time.perf_counter()
        on_event(StageStarted("throughput", "timing batch sizes"))
        safe_bytes = (1 - question.margin) * info.capacity_bytes
        safe_size = size_within(found.trials, safe_bytes)
        interval = predicted_interval(info, found.maximum, found.trials) if found.exact else None
        safe_size = min(safe_size, interval[0]) if interval else safe_size
        timed_trial = log.watching("throughput", probe.measure)
        curve = measure_curve(timed_trial, found.maximum, question.current_batch_size, safe_size, safe_bytes)
        timed = time.perf_counter()
        if not any(trial.fits for trial in curve):
            raise _does_not_fit(question.request, info, curve)
    return Analysis(
        request=question.request,
        info=info,
        trials=log.trials,
        max_batch_size=max(trial.batch_size for trial in curve if trial.fits),
        current_batch_size=question.current_batch_size,
        margin=question.margin,
        usage=question.usage,
        price=price_of(question, info),
        seconds={
            **info.seconds,
            "start": max(ready - start - sum(info.seconds.values()), 0.0),
            "search": searched - ready,
            "throughput": timed - searched,
            "total": time.perf_counter() - start,
        },
    )


def price_of(question: Question, info: ProbeInfo) -> Price | None:
    """What an hour costs: as given, or by the catalog."""
    if question.price_per_hour is not None:
        return Price(question.price_per_hour, "as given")
    gpu = info.gpu
    return gpu.price if gpu else None


def _does_not_fit(request: Request, info: ProbeInfo, trials: list[Trial]) -> DoesNotFitError:
    trial = why_nothing_fits(trials)
    failure = trial.failure
    if failure is not None and failure.kind == "limit":
        return LaunchLimitError(
            f"{request.entry.name} does not run even at batch {trial.batch_size}: {failure.message}"
        )
    missing = least_bytes(request, info) - info.capacity_bytes
    shortfall = max(failure.shortfall_bytes or 0 if failure else 0, missing)
    by = f", by {format_bytes(shortfall)}{'' if info.source == 'predicted' else ' or more'}" if shortfall else ""
    sample = f", {info.sample}" if info.sample else ""
    recipe = request.recipe.describe(info.optimizer, info.weights_dtype)
    return DoesNotFitError(
        f"{request.entry.name} ({recipe}{sample}) does not train within "
        f"{format_bytes(info.target_bytes)} even at batch {trial.batch_size}{by}",
        shortfall or None,
        hint=f"{'raise --memory-gib, or ' if info.capped else ''}take a smaller model or shorter samples",
        info=info,
    )


def least_bytes(request: Request, info: ProbeInfo) -> int:
    """What weights, gradients and the optimizer's state take however small the batch; 0 where that is not known."""
    if isinstance(request, OwnRequest) or request.name.runs_code:
        return 0  # its weights may be of any type, and frozen, and its optimizer any
    return request.recipe.least_bytes(info.parameters)
