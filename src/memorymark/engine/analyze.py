"""One analysis with one probe: search, time, sum up."""

from __future__ import annotations

import time
from dataclasses import replace

from memorymark.catalog import Price
from memorymark.engine.search import TrialLog, search_with
from memorymark.engine.throughput import measure_curve
from memorymark.errors import DoesNotFitError, LaunchLimitError, UsageError
from memorymark.events import OnEvent, StageStarted
from memorymark.largest_batch import SearchResult, size_within
from memorymark.messages import Message
from memorymark.probe.base import Probe
from memorymark.question.limits import NO_LIMIT
from memorymark.question.question import Question, not_counted_in_tokens
from memorymark.question.recipe import Recipe
from memorymark.question.request import OwnRequest, Request
from memorymark.results.analysis import Analysis, predicted_interval
from memorymark.results.cost import with_hours_of_run
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial, why_nothing_fits
from memorymark.units import format_bytes


def analyze_with(question: Question, probe: Probe, on_event: OnEvent, start: float) -> Analysis:
    """Finds the largest batch, times batch sizes and returns the analysis; ``start`` is when the work began."""
    _require_countable(question, probe.info)
    log, watch = TrialLog(on_event), StopWatch(start, probe.info.seconds)
    with log.kept_on_error():
        found = _searched(question, probe, log)
        watch.lap("search")
        on_event(StageStarted("throughput", "timing batch sizes"))
        curve = _timed(question, probe, found, log)
        watch.lap("throughput")
    analysis = Analysis(
        request=question.request,
        info=probe.info,
        trials=log.trials,
        max_batch_size=max(trial.batch_size for trial in curve if trial.fits),
        current_batch_size=question.current_batch_size,
        margin=question.margin,
        usage=question.usage,
        price=price_of(question, probe.info),
        seconds=watch.seconds(),
    )
    return replace(analysis, usage=with_hours_of_run(question.usage, analysis.current))


def _require_countable(question: Question, info: ProbeInfo) -> None:
    """Refuses tokens of a run whose samples turn out not to be text."""
    if question.usage.tokens is not None and info.tokens_per_sample is None:
        raise UsageError(
            not_counted_in_tokens(question.request), code="not_applicable", field="tokens", given=question.usage.tokens
        )


class StopWatch:
    """Collects the seconds of each stage: getting the probe ready, other preparation, and every lap."""

    def __init__(self, start: float, ready_seconds: dict[str, float]) -> None:
        self._start, self._last = start, time.perf_counter()
        waited = self._last - start - sum(ready_seconds.values())
        self._seconds = {**ready_seconds, "start": max(waited, 0.0)}

    def lap(self, stage: str) -> None:
        """Records the time since the last lap as that of ``stage``."""
        now = time.perf_counter()
        self._seconds[stage], self._last = now - self._last, now

    def seconds(self) -> dict[str, float]:
        """Returns the seconds of every stage so far and their total."""
        return {**self._seconds, "total": time.perf_counter() - self._start}


def _searched(question: Question, probe: Probe, log: TrialLog) -> SearchResult:
    """Returns the largest batch, or raises an error that says why none fits."""
    found = search_with(probe, question.max_batch or NO_LIMIT, log)
    if found.maximum == 0:
        raise _does_not_fit(question.request, probe.info, found.trials)
    return found


def _timed(question: Question, probe: Probe, found: SearchResult, log: TrialLog) -> list[Trial]:
    """Returns timed trials from small sizes to the largest; raises an error if none fits any more."""
    info = probe.info
    safe_bytes = (1 - question.margin) * info.capacity_bytes
    safe_size = size_within(found.trials, safe_bytes)
    interval = predicted_interval(info, found.maximum, found.trials) if found.exact else None
    safe_size = min(safe_size, interval[0]) if interval else safe_size
    timed_trial = log.watching("throughput", probe.measure)
    curve = measure_curve(timed_trial, found.maximum, question.current_batch_size, safe_size, safe_bytes)
    if not any(trial.fits for trial in curve):
        raise _does_not_fit(question.request, info, curve)
    return curve


def price_of(question: Question, info: ProbeInfo) -> Price | None:
    """Returns the price of an hour: of one GPU by the caller's word or the catalog's, times how many train."""
    gpu, gpus = info.gpu, question.request.recipe.gpus
    price = gpu.price if gpu else None
    if question.price_per_hour is not None:
        price = Price(question.price_per_hour, "as given")
    elif info.gpu_id is not None and info.gpu_id in (question.prices or {}):
        price = Price((question.prices or {})[info.gpu_id], "as given")
    return price if price is None or gpus == 1 else price.of(gpus)


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
        hint=_what_else(request.recipe, capped=info.capped),
        info=info,
    )


def _what_else(recipe: Recipe, *, capped: bool) -> Message | str:
    """Says what to try if nothing is known to fit."""
    if recipe.gpus > 1:
        recompute = "add {gradient_checkpointing}, " if recipe.gradient_checkpointing == "none" else ""
        more = f"take more {{gpus}}, {recompute}or shorten the samples"
        said = more if recipe.cuts_weights else "cut the weights with {strategy:fsdp}, " + more
        return Message(said)
    if capped:
        return Message("raise {memory_gib}, or take a smaller model or shorter samples")
    return "take a smaller model or shorter samples"


def least_bytes(request: Request, info: ProbeInfo) -> int:
    """Returns the bytes of weights, gradients and optimizer state, which no batch size avoids; 0 if unknown."""
    if isinstance(request, OwnRequest) or request.name.runs_code:
        return 0  # its weights may be frozen or of any type, and its optimizer unknown
    return request.recipe.least_bytes(info.parameters)
