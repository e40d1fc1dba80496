"""The main jobs, read from top to bottom: open a probe, search, time, analyse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from memorymark.analysis import Analysis, predicted_interval
from memorymark.catalog import GpuEntry, Price, all_gpus, match_gpu
from memorymark.comparison import Comparison
from memorymark.cost import Usage
from memorymark.devices import nvml
from memorymark.errors import DoesNotFitError, MemoryMarkError, UsageError
from memorymark.events import OnEvent, Stage, StageStarted, TrialFinished, ignore
from memorymark.probe import Probe, ProbeInfo
from memorymark.probe.local import LocalProbe
from memorymark.probe.process import Workers
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS, RemoteProbe
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question, require_positive
from memorymark.request import Request
from memorymark.result import Result
from memorymark.search import NO_LIMIT, find_maximum, size_within
from memorymark.sweep import Sweep
from memorymark.target import default_gpu_target
from memorymark.throughput import measure_curve
from memorymark.trial import Trial
from memorymark.units import format_bytes
from memorymark.workload import Workload

# From here on, a model that does not fit is one that people train by adapters.
LARGE_MODEL = 1_000_000_000


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
    workers: Workers | None = None,
) -> Analysis:
    """Finds the largest batch that trains and the one worth using, and what they save.

    If the work ends early, the error's ``trials`` holds what had been learned until then. ``workers`` is where the
    worker process comes from; left out, it is a fresh one.
    """
    question = Question(
        request=request,
        current_batch_size=current_batch_size,
        max_batch=max_batch,
        margin=margin,
        usage=usage or Usage(),
        price_per_hour=price_per_hour,
    )
    return _analyze(question, Site(time_limit_seconds=time_limit_seconds, workers=workers), on_event)


def analyze_all_gpus(
    request: Request,
    *,
    current_batch_size: int = DEFAULT_CURRENT,
    max_batch: int | None = None,
    margin: float = DEFAULT_MARGIN,
    usage: Usage | None = None,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workers: Workers | None = None,
) -> Comparison:
    """Predicts the same training for every GPU of the catalog, to tell where it is fastest and where cheapest."""
    question = Question(
        request=request,
        current_batch_size=current_batch_size,
        max_batch=max_batch,
        margin=margin,
        usage=usage or Usage(),
        all_gpus=True,
    )
    return _compare(question, Site(time_limit_seconds=time_limit_seconds, workers=workers), on_event)


@dataclass(frozen=True)
class Site:
    """Where the work is done: in a worker process, or in this one if there is a ``workload`` that lives here only."""

    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS
    workers: Workers | None = None
    workload: Workload | None = None

    def open(self, request: Request, *, predict_without_gpu: bool = False) -> LocalProbe | RemoteProbe:
        """The probe of a request, not yet entered; what is wrong with the limits is said here, before any work."""
        if self.workload is not None:
            return LocalProbe(self.workload, request.recipe, request.target, predict_without_gpu=predict_without_gpu)
        return RemoteProbe(
            request,
            time_limit_seconds=self.time_limit_seconds,
            predict_without_gpu=predict_without_gpu,
            workers=self.workers,
        )

    def announce(self, what: str, request: Request) -> StageStarted:
        """The start of the work, as listeners hear it."""
        where = "" if self.workload is not None else "starting a worker and "
        return StageStarted("start", f"{where}{what} {request.entry.name}")


def answer(
    question: Question,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workers: Workers | None = None,
    workload: Workload | None = None,
) -> Result:
    """Answers a question that was asked in one piece, as over HTTP; ``workload`` is one that lives in this process."""
    site = Site(time_limit_seconds, workers, workload)
    if question.all_gpus:
        return _compare(question, site, on_event)
    return _sweep(question, site, on_event) if question.seq_lens else _analyze(question, site, on_event)


def _analyze(question: Question, site: Site, on_event: OnEvent) -> Analysis:
    opened = site.open(question.request, predict_without_gpu=True)
    start = time.perf_counter()
    on_event(site.announce("building", question.request))
    with opened as probe:
        return _answer(question, probe, on_event, start)


def _compare(question: Question, site: Site, on_event: OnEvent) -> Comparison:
    """One analysis for each GPU of the catalog."""
    request = question.request
    first, *others = all_gpus()
    analyses: dict[str, Analysis] = {}
    opened = site.open(replace(request, target=replace(request.target, gpu=first.id)))
    on_event(site.announce("tracing", request))
    with opened as probe:
        for gpu in (first, *others):
            start = time.perf_counter()
            if gpu is not first:
                probe.retarget(gpu.id)
            try:
                analyses[gpu.id] = _answer(question, probe, ignore, start)
                batch = analyses[gpu.id].max_batch_size
                on_event(StageStarted("search", f"{gpu.name}: up to batch {batch}"))
            except DoesNotFitError:
                on_event(StageStarted("search", f"{gpu.name}: does not fit"))
        info = probe.info
    if not analyses:
        largest = max(all_gpus(), key=lambda gpu: gpu.memory_bytes)
        raise DoesNotFitError(
            f"{request.entry.name} ({request.recipe.describe()}) fits no GPU of the catalog, not even the "
            f"{largest.name}; try {_ways_to_fit(request, info)}."
        )
    return Comparison(request, analyses)


def _sweep(question: Question, site: Site, on_event: OnEvent) -> Sweep:
    """One analysis for each length, the longest first: its batch is then timed at the shorter ones too."""
    lengths = sorted(set(question.seq_lens), reverse=True)
    analyses: dict[int, Analysis] = {}
    too_long: list[DoesNotFitError] = []
    planned: int | None = None
    opened = site.open(question.at_length(lengths[0]).request, predict_without_gpu=True)
    on_event(site.announce("building", question.request))
    with opened as probe:
        for length in lengths:
            start = time.perf_counter()
            if length != lengths[0]:
                on_event(StageStarted("start", f"going on with {length} tokens"))
                probe.reshape(length)
            try:
                found = _answer(question.at_length(length), probe, on_event, start)
            except DoesNotFitError as error:
                too_long.append(error)
                continue
            if planned is None:
                planned = (found.recommended or found.maximum).batch_size
            elif not any(trial.batch_size == planned and trial.samples_per_second for trial in found.curve):
                found = replace(found, trials=[*found.trials, probe.measure(planned)])
            analyses[length] = found
    if not analyses:
        raise too_long[-1]
    return Sweep(question.request, tuple(sorted(lengths)), dict(sorted(analyses.items())))


def _answer(question: Question, probe: Probe, on_event: OnEvent, start: float) -> Analysis:
    """Searches, times and analyses; ``start`` is when the work began."""
    info, log = probe.info, _TrialLog(on_event)
    with log.kept_on_error():
        ready = time.perf_counter()
        within = f"searching the largest batch within {format_bytes(info.capacity_bytes)}"
        on_event(StageStarted("search", within, info.capacity_bytes))
        found = find_maximum(
            log.watching("search", probe.try_batch),
            info.capacity_bytes,
            forecast=probe.forecast,
            limit=question.max_batch or NO_LIMIT,
        )
        if found.maximum == 0:
            raise _does_not_fit(question.request, info, found.trials)
        searched = time.perf_counter()
        on_event(StageStarted("throughput", "timing batch sizes"))
        safe_size = size_within(found.trials, (1 - question.margin) * info.capacity_bytes)
        interval = predicted_interval(info, found.maximum, found.trials)
        safe_size = min(safe_size, interval[0]) if interval else safe_size
        timed_trial = log.watching("throughput", probe.measure)
        curve = measure_curve(timed_trial, found.maximum, question.current_batch_size, safe_size)
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
        price=_price(question, info),
        seconds={
            **info.seconds,
            "start": max(ready - start - sum(info.seconds.values()), 0.0),
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
    workload: Workload | None = None,
) -> tuple[ProbeInfo, Trial]:
    """One full trial at one batch size, run on the device here."""
    require_run("measure", request)
    return _one_trial(request, batch_size, Site(time_limit_seconds, None, workload), on_event)


def predict(
    request: Request,
    batch_size: int,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workload: Workload | None = None,
) -> tuple[ProbeInfo, Trial]:
    """One full trial at one batch size, predicted: for the GPU that is named, the one here, or the default one."""
    return _one_trial(for_prediction(request), batch_size, Site(time_limit_seconds, None, workload), on_event)


def for_prediction(request: Request) -> Request:
    """The request with a GPU to predict for."""
    target = request.target
    if target.gpu is not None:
        return request
    if target.device != "auto" and not target.device.startswith("cuda"):
        raise UsageError(f"a step is predicted for a CUDA GPU, not for {target.device}; name one with --gpu.")
    index = int(target.device.partition(":")[2] or 0)
    here = [match_gpu(state.name) for state in nvml.gpus()][index : index + 1]
    target = replace(target, device="auto")
    known = here[0] if here else None
    return replace(request, target=replace(target, gpu=known.id) if known else default_gpu_target(target))


def require_run(command: str, request: Request) -> None:
    """Refuses a GPU that is not here for what only a real run can answer."""
    if request.target.gpu is not None:
        raise UsageError(f"{command} runs on a device that is here; drop --gpu, or use predict or analyze with it.")


def _one_trial(request: Request, batch_size: int, site: Site, on_event: OnEvent) -> tuple[ProbeInfo, Trial]:
    require_positive("--batch-size", batch_size)
    opened = site.open(request)
    on_event(site.announce("building", request))
    with opened as probe:
        doing = "predicting" if probe.info.source == "predicted" else "running"
        on_event(StageStarted("throughput", f"{doing} steps at batch {batch_size}"))
        return probe.info, probe.measure(batch_size)


def _price(question: Question, info: ProbeInfo) -> Price | None:
    if question.price_per_hour is not None:
        return Price(question.price_per_hour, "as given")
    gpu = _entry(info)
    return gpu.price if gpu else None


def _entry(info: ProbeInfo) -> GpuEntry | None:
    """The catalog's entry: by its own name where a step is predicted, by the driver's where it ran."""
    by_name = {gpu.name: gpu for gpu in all_gpus()}
    return by_name[info.device_name] if info.source == "predicted" else match_gpu(info.device_name)


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
    recipe, text = request.recipe, "tokens" in info.sample
    shorter = {"tokens": "a shorter --seq-len", "pixels": "a smaller --image-size", "seconds": "fewer --audio-seconds"}
    ways = [
        *(["a larger --memory-gib"] if info.capped else []),
        *(["--precision bf16"] if recipe.precision == "fp32" and info.device_kind == "cuda" else []),
        *(["--gradient-checkpointing"] if text and not recipe.gradient_checkpointing else []),
        *(["--optimizer sgd"] if recipe.optimizer in ("adam", "adamw") else []),
        *(["--lora 16"] if text and not recipe.lora and info.parameters >= LARGE_MODEL else []),
        *(way for unit, way in shorter.items() if unit in info.sample),
    ]
    return f"{', '.join(ways)} or a larger GPU" if ways else "a larger GPU"


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
