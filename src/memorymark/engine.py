"""The main jobs, read from top to bottom: open a probe, search, time, analyse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memorymark.analysis import DEFAULT_CURRENT, DEFAULT_MARGIN, Analysis
from memorymark.catalog import Price, match_gpu
from memorymark.cost import Usage
from memorymark.errors import DoesNotFitError, MemoryMarkError, UsageError
from memorymark.events import OnEvent, Stage, StageStarted, TrialFinished, ignore
from memorymark.probe import ProbeInfo
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS, RemoteProbe
from memorymark.request import Request
from memorymark.search import NO_LIMIT, find_maximum, size_within
from memorymark.throughput import measure_curve
from memorymark.trial import Trial
from memorymark.units import format_bytes


def analyze(
    request: Request,
    *,
    current_batch_size: int = DEFAULT_CURRENT,
    max_batch: int | None = None,
    margin: float = DEFAULT_MARGIN,
    usage: Usage | None = None,
    price_per_hour: float | None = None,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
) -> Analysis:
    """Finds the largest batch that trains and the one worth using, and what they save.

    If the work ends early, the error's ``trials`` holds what had been learned until then.
    """
    require_positive("--batch-size", current_batch_size)
    require_positive("--max-batch", max_batch)
    if not 0 <= margin < 1:
        raise UsageError(f"--margin is a fraction from 0 to below 1, not {margin:g}.")
    given_price = _given_price(price_per_hour)
    remote = RemoteProbe(request, time_limit_seconds=time_limit_seconds)
    log = _TrialLog(on_event)
    start = time.perf_counter()
    on_event(StageStarted("start", f"starting a worker and building {request.entry.name}"))
    with log.kept_on_error(), remote as probe:
        info = probe.info
        ready = time.perf_counter()
        on_event(StageStarted("search", f"searching the largest batch within {format_bytes(info.capacity_bytes)}"))
        found = find_maximum(
            log.watching("search", probe.try_batch),
            info.capacity_bytes,
            forecast=probe.forecast,
            limit=max_batch or NO_LIMIT,
        )
        if found.maximum == 0:
            raise _does_not_fit(request, info, found.trials)
        searched = time.perf_counter()
        on_event(StageStarted("throughput", "timing batch sizes"))
        safe_size = size_within(found.trials, (1 - margin) * info.capacity_bytes)
        curve = measure_curve(log.watching("throughput", probe.measure), found.maximum, current_batch_size, safe_size)
        timed = time.perf_counter()
    if not any(trial.fits for trial in curve):
        raise _does_not_fit(request, info, curve)
    return Analysis(
        request=request,
        info=info,
        trials=log.trials,
        max_batch_size=max(trial.batch_size for trial in curve if trial.fits),
        current_batch_size=current_batch_size,
        margin=margin,
        usage=usage or Usage(),
        price=given_price or _catalog_price(info),
        seconds={
            **info.seconds,
            "start": ready - start - sum(info.seconds.values()),
            "search": searched - ready,
            "throughput": timed - searched,
            "total": time.perf_counter() - start,
        },
    )


def measure(
    request: Request,
    batch_size: int,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
) -> tuple[ProbeInfo, Trial]:
    """One full trial at one batch size."""
    require_positive("--batch-size", batch_size)
    remote = RemoteProbe(request, time_limit_seconds=time_limit_seconds)
    on_event(StageStarted("start", f"starting a worker and building {request.entry.name}"))
    with remote as probe:
        on_event(StageStarted("throughput", f"running steps at batch {batch_size}"))
        return probe.info, probe.measure(batch_size)


def _given_price(price_per_hour: float | None) -> Price | None:
    if price_per_hour is None:
        return None
    if not 0 <= price_per_hour < math.inf:
        raise UsageError(f"--price-per-hour must be a number of dollars from 0 up, not {price_per_hour:g}.")
    return Price(price_per_hour, "as given")


def _catalog_price(info: ProbeInfo) -> Price | None:
    gpu = match_gpu(info.device_name)
    return gpu.price if gpu else None


def require_positive(option: str, value: int | None) -> None:
    """Refuses what is no batch size; ``None`` is one that was not given."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{option} must be a whole number, not {value!r}.")
    if value < 1:
        raise UsageError(f"{option} must be 1 or more, not {value}.")
    if value > NO_LIMIT:
        raise UsageError(f"{option} can be at most {NO_LIMIT}, not {value}.")


def _does_not_fit(request: Request, info: ProbeInfo, trials: list[Trial]) -> DoesNotFitError:
    failure = trials[-1].failure
    if failure is not None and failure.kind == "limit":
        return DoesNotFitError(f"{request.entry.name} does not run even at batch 1: {failure.message}")
    shortfall = failure.shortfall_bytes if failure else None
    by = f", by {format_bytes(shortfall)} or more" if shortfall else ""
    return DoesNotFitError(
        f"{request.entry.name} ({request.recipe.describe()}) does not train within "
        f"{format_bytes(info.capacity_bytes)} even at batch 1{by}; try {_ways_to_fit(request, info)}.",
        shortfall,
    )


def _ways_to_fit(request: Request, info: ProbeInfo) -> str:
    recipe, text = request.recipe, request.entry.type == "nlp"
    ways = [
        *(["a larger --memory-gib"] if info.capped else []),
        *(["--precision bf16"] if recipe.precision == "fp32" and info.device_kind == "cuda" else []),
        *(["--gradient-checkpointing"] if text and not recipe.gradient_checkpointing else []),
        *(["--optimizer sgd"] if recipe.optimizer in ("adam", "adamw") else []),
        "a shorter --seq-len" if text else "a smaller --image-size",
    ]
    return f"{', '.join(ways)} or a larger GPU"


class _TrialLog:
    """Keeps every trial and tells the listener of each."""

    def __init__(self, on_event: OnEvent) -> None:
        self.trials: list[Trial] = []
        self._on_event = on_event

    def watching(self, stage: Stage, run: Callable[[int], Trial]) -> Callable[[int], Trial]:
        def run_and_tell(batch_size: int) -> Trial:
            trial = run(batch_size)
            self.trials.append(trial)
            self._on_event(TrialFinished(stage, trial))
            return trial

        return run_and_tell

    @contextmanager
    def kept_on_error(self) -> Iterator[None]:
        try:
            yield
        except MemoryMarkError as error:
            error.trials = self.trials
            raise
