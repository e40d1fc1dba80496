"""The main jobs: one analysis, one for each GPU, one for each length, one trial, advice."""

from __future__ import annotations

import time
from dataclasses import replace

from memorymark.advice.advising import advise
from memorymark.advice.suggesting import suggest
from memorymark.analysis import Analysis
from memorymark.analyzing import analyze_with
from memorymark.catalog import all_gpus
from memorymark.comparison import Comparison
from memorymark.devices.here import gpu_here
from memorymark.errors import DoesNotFitError, LaunchLimitError, UsageError
from memorymark.events import OnEvent, StageStarted, TrialFinished, ignore
from memorymark.probe import ProbeInfo
from memorymark.probe.process import KeptWorkers, Workers
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.question import Question, require_positive
from memorymark.request import Request
from memorymark.result import Result
from memorymark.site import Site
from memorymark.suggestion import Suggestion, in_a_sentence
from memorymark.sweep import Sweep
from memorymark.target import default_gpu_target
from memorymark.trial import Trial
from memorymark.workload import Workload


def answer(
    question: Question,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workers: Workers | None = None,
    workload: Workload | None = None,
) -> Result:
    """Answers a question that was asked in one piece, as over HTTP; ``workload`` is one that lives in this process."""
    kept = KeptWorkers(workers)
    # Advice keeps workers by itself: what it compiles is compiled in a fresh one.
    site = Site(time_limit_seconds, workers if question.advise else kept, workload, keep_traces=workers is None)
    try:
        return _answer(question, site, on_event)
    except LaunchLimitError:
        raise
    except DoesNotFitError as error:
        found = suggest(question, error, replace(site, workers=kept), on_event)
        if found is None:
            raise
        raise with_suggestions(error, found) from None
    finally:
        kept.close()


def with_suggestions(error: DoesNotFitError, suggestions: list[Suggestion]) -> DoesNotFitError:
    """The same error with what was found to fit, in its sentence and as data."""
    hint = in_a_sentence(suggestions)
    fuller = DoesNotFitError(error.what, error.shortfall_bytes, hint=hint, info=error.info, suggestions=suggestions)
    fuller.trials = error.trials
    return fuller


def _answer(question: Question, site: Site, on_event: OnEvent) -> Result:
    if question.advise:
        return advise(question, site, on_event)
    if question.all_gpus:
        return _compare(question, site, on_event)
    return _sweep(question, site, on_event) if question.seq_lens else _analyze(question, site, on_event)


def _analyze(question: Question, site: Site, on_event: OnEvent) -> Analysis:
    opened = site.open(question.request, predict_without_gpu=True)
    start = time.perf_counter()
    on_event(site.announce("building", question.request))
    with opened as probe:
        return analyze_with(question, probe, on_event, start)


def _compare(question: Question, site: Site, on_event: OnEvent) -> Comparison:
    """One analysis for each GPU of the catalog."""
    request = question.request
    first, *others = all_gpus()
    analyses: dict[str, Analysis] = {}
    opened = site.open(replace(request, target=replace(request.target, gpu=first.id)))
    start = time.perf_counter()
    on_event(site.announce("tracing", request))
    with opened as probe:
        for gpu in (first, *others):
            if gpu is not first:
                start = time.perf_counter()
                probe.retarget(gpu.id)
            try:
                analyses[gpu.id] = analyze_with(question, probe, ignore, start)
                batch = analyses[gpu.id].max_batch_size
                on_event(StageStarted("search", f"{gpu.name}: up to batch {batch}"))
            except DoesNotFitError:
                on_event(StageStarted("search", f"{gpu.name}: does not fit"))
        info = probe.info
    if not analyses:
        largest = max(all_gpus(), key=lambda gpu: gpu.memory_bytes)
        recipe = request.recipe.describe(info.optimizer, info.weights_dtype)
        raise DoesNotFitError(
            f"{request.entry.name} ({recipe}) fits no GPU of the catalog, not even the {largest.name}", info=info
        )
    return Comparison(request, analyses)


def _sweep(question: Question, site: Site, on_event: OnEvent) -> Sweep:
    """One analysis for each length, the longest first: its batch is then timed at the shorter ones too."""
    lengths = sorted(set(question.seq_lens), reverse=True)
    analyses: dict[int, Analysis] = {}
    too_long: list[DoesNotFitError] = []
    planned: int | None = None
    opened = site.open(question.at_length(lengths[0]).request, predict_without_gpu=True)
    start = time.perf_counter()
    on_event(site.announce("building", question.request))
    with opened as probe:
        for length in lengths:
            if length != lengths[0]:
                start = time.perf_counter()
                on_event(StageStarted("start", f"going on with {length} tokens"))
                probe.reshape(length)
            try:
                found = analyze_with(question.at_length(length), probe, on_event, start)
            except DoesNotFitError as error:
                too_long.append(error)
                continue
            if planned is None:
                planned = (found.recommended or found.maximum).batch_size
            elif not any(trial.batch_size == planned and trial.samples_per_second for trial in found.curve):
                at_planned = probe.measure(planned)
                on_event(TrialFinished("throughput", at_planned))
                found = replace(found, trials=[*found.trials, at_planned])
            analyses[length] = found
    if not analyses:
        raise too_long[-1]
    return Sweep(question.request, tuple(sorted(lengths)), dict(sorted(analyses.items())))


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
    return _one_trial(request, batch_size, Site(time_limit_seconds, workload=workload), on_event)


def predict(
    request: Request,
    batch_size: int,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workload: Workload | None = None,
) -> tuple[ProbeInfo, Trial]:
    """One full trial at one batch size, predicted: for the GPU that is named, the one here, or the default one."""
    site = Site(time_limit_seconds, workload=workload, keep_traces=True)
    return _one_trial(for_prediction(request), batch_size, site, on_event)


def for_prediction(request: Request) -> Request:
    """The request with a GPU to predict for."""
    target = request.target
    if target.gpu is not None:
        return request
    if target.device != "auto" and not target.device.startswith("cuda"):
        raise UsageError(f"a step is predicted for a CUDA GPU, not for {target.device}; name one with --gpu.")
    known = gpu_here(target)
    target = replace(target, device="auto")
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
