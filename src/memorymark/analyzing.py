"""One analysis with one probe: search, time, sum up."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from memorymark.analysis import Analysis, predicted_interval
from memorymark.catalog import Price
from memorymark.errors import DoesNotFitError
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

# From here on, a model that does not fit is one that people train by adapters.
LARGE_MODEL = 1_000_000_000


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
        return DoesNotFitError(f"{request.entry.name} does not run even at batch {trial.batch_size}: {failure.message}")
    missing = least_bytes(request, info) - info.capacity_bytes
    shortfall = max(failure.shortfall_bytes or 0 if failure else 0, missing)
    by = f", by {format_bytes(shortfall)}{'' if info.source == 'predicted' else ' or more'}" if shortfall else ""
    sample = f", {info.sample}" if info.sample else ""
    recipe = request.recipe.describe(info.optimizer, info.weights_dtype)
    return DoesNotFitError(
        f"{request.entry.name} ({recipe}{sample}) does not train within "
        f"{format_bytes(info.capacity_bytes)} even at batch {trial.batch_size}{by}; try {ways_to_fit(request, info)}.",
        shortfall or None,
    )


def least_bytes(request: Request, info: ProbeInfo) -> int:
    """What weights, gradients and the optimizer's state take however small the batch; 0 where that is not known."""
    if isinstance(request, OwnRequest) or request.name.runs_code:
        return 0  # its weights may be of any type, and frozen, and its optimizer any
    return request.recipe.least_bytes(info.parameters)


def ways_to_fit(request: Request, info: ProbeInfo) -> str:
    """What to try where a model does not fit, in words; nothing that leaves weights and the like too large."""
    recipe, text = request.recipe, "tokens" in info.sample

    def helps(**changes: Any) -> bool:
        changed = replace(request, recipe=replace(recipe, **changes))
        return least_bytes(changed, info) <= info.capacity_bytes

    to_half = recipe.precision == "fp32" and info.device_kind == "cuda"
    half = "bf16" if info.gpu is None or info.gpu.has_bf16 else "fp16"
    has_large_state = recipe.optimizer in ("adam", "adamw") and not info.optimizer and not recipe.lora
    to_adapters = text and not recipe.lora and info.parameters >= LARGE_MODEL
    makes_own_batches = isinstance(request, OwnRequest) or request.name.runs_code
    shorter = {"tokens": "a shorter --seq-len", "pixels": "a smaller --image-size", "seconds": "fewer --audio-seconds"}
    possible = {
        "a larger --memory-gib": info.capped and least_bytes(request, info) <= info.total_bytes,
        f"--precision {half}": to_half and helps(precision=half),
        "--gradient-checkpointing": text and not recipe.gradient_checkpointing and helps(),
        "--optimizer sgd": has_large_state and helps(optimizer="sgd"),
        "--lora 16": to_adapters and helps(lora=16),
        f"--lora 16 with --precision {half}": (
            to_adapters and to_half and not helps(lora=16) and helps(lora=16, precision=half)
        ),
        **{way: unit in info.sample and not makes_own_batches and helps() for unit, way in shorter.items()},
    }
    ways = [way for way, is_one in possible.items() if is_one]
    return f"{', '.join(ways)} or a larger GPU" if ways else "a larger GPU"
