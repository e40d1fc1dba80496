"""Answers questions: one analysis, one per GPU, one per length, a single trial, or advice."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from memorymark.advice.advise import advise
from memorymark.advice.explain import explained
from memorymark.advice.matrix import matrix_of
from memorymark.advice.suggesting import suggest
from memorymark.devices.resolve import for_prediction
from memorymark.engine.analyze import analyze_with
from memorymark.engine.compare import compare
from memorymark.engine.longest_samples import with_longest_samples
from memorymark.engine.other_loop import with_other_loop
from memorymark.engine.reference import check_catalog_reference, check_reference
from memorymark.engine.side_by_side import lanes_here
from memorymark.engine.site import Site
from memorymark.engine.targets import require_run
from memorymark.errors import DoesNotFitError, LaunchLimitError
from memorymark.events import OnEvent, StageStarted, TrialFinished, ignore
from memorymark.question.question import Question, require_batch_size
from memorymark.question.request import Request
from memorymark.results.analysis import Analysis
from memorymark.results.explanation import Explanation
from memorymark.results.lengths import Sweep
from memorymark.results.matrix import Matrix
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.result import Result
from memorymark.results.trial import Trial
from memorymark.suggestions import Suggestion, in_a_sentence
from memorymark.training.workload import Workload
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.worker.supervisor import KeptWorkers, Workers


def answer(
    question: Question,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workers: Workers | None = None,
    workload: Workload | None = None,
    keep_traces: bool | None = None,
    suggests: bool = True,
) -> Result:
    """Answers a whole ``Question``, as HTTP callers send it; ``workload`` is the caller's, if it lives here.

    Set ``keep_traces`` for ``workers`` that serve only their own user. Without ``suggests``, nothing is searched that
    would fit instead of what does not.
    """
    kept = KeptWorkers(workers)
    # Advice manages its own workers, since it compiles in a fresh one.
    keeps = workers is None if keep_traces is None else keep_traces
    lanes = lanes_here() if workers is None and workload is None else 1
    site = Site(time_limit_seconds, workers if question.advise else kept, workload, keep_traces=keeps, lanes=lanes)
    try:
        return _answer(question, site, on_event)
    except LaunchLimitError:
        raise
    except DoesNotFitError as error:
        if not suggests:
            raise
        found = suggest(question, error, replace(site, workers=kept), on_event)
        if found is None:
            raise
        raise with_suggestions(error, found) from None
    finally:
        kept.close()


def with_suggestions(error: DoesNotFitError, suggestions: list[Suggestion]) -> DoesNotFitError:
    """Returns the same error with the suggestions that fit, both in its sentence and as data."""
    fuller = DoesNotFitError(
        error.message,
        error.shortfall_bytes,
        hint=in_a_sentence(suggestions),
        info=error.info,
        suggestions=suggestions,
        field=error.field,
        given=error.given,
    )
    fuller.trials = error.trials
    return fuller


def _answer(question: Question, site: Site, on_event: OnEvent) -> Result:
    if question.request.recipe.gpus > 1 and not question.all_gpus:  # of several, only one rank could be measured
        request = question.request
        question = replace(question, request=replace(request, target=for_prediction(request.target)))
    if question.advise:
        return advise(question, site, on_event)
    if question.compares_gpus:
        return compare(question, site, on_event)
    return _sweep(question, site, on_event) if question.seq_lens else _analyze(question, site, on_event)


def _analyze(question: Question, site: Site, on_event: OnEvent) -> Analysis:
    check_catalog_reference(question.request)
    opened = site.open(question.request, predict_without_gpu=True)
    start = time.perf_counter()
    on_event(site.announce("building", question.request))
    with opened as probe:
        check_reference(question.request, probe.info)
        analysis = with_other_loop(analyze_with(question, probe, on_event, start), probe)
        return with_longest_samples(analysis, probe, on_event)


def _sweep(question: Question, site: Site, on_event: OnEvent) -> Sweep:
    """Analyzes each length, the longest first, so that its batch can be timed at the shorter ones too."""
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
            analyses[length] = with_other_loop(found, probe)
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
    """Runs one full trial at one batch size on a local device."""
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
    """Predicts one full trial at one batch size, for the requested GPU, the local one, or the default."""
    site = Site(time_limit_seconds, workload=workload, keep_traces=True)
    return _one_trial(replace(request, target=for_prediction(request.target)), batch_size, site, on_event)


def explain(
    request: Request,
    batch_size: int,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workload: Workload | None = None,
    snapshot: Path | None = None,
) -> Explanation:
    """Says where the memory of a step goes: measured on the GPU here, predicted for the named one or without a GPU.

    ``snapshot`` is a file to write for PyTorch's memory viewer.
    """
    require_batch_size(batch_size)
    if request.recipe.gpus > 1:  # of several, only one rank could be measured
        request = replace(request, target=for_prediction(request.target))
    kept = KeptWorkers()
    try:
        site = Site(time_limit_seconds, kept, workload, keep_traces=True)
        return explained(request, batch_size, site, on_event, snapshot)
    finally:
        kept.close()


def matrix(
    question: Question,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workload: Workload | None = None,
) -> Matrix:
    """Predicts the largest batch for each of several GPUs and recipes."""
    kept = KeptWorkers()
    try:
        return matrix_of(question, Site(time_limit_seconds, kept, workload, keep_traces=True), on_event)
    finally:
        kept.close()


def _one_trial(request: Request, batch_size: int, site: Site, on_event: OnEvent) -> tuple[ProbeInfo, Trial]:
    require_batch_size(batch_size)
    check_catalog_reference(request)
    opened = site.open(request)
    on_event(site.announce("building", request))
    with opened as probe:
        check_reference(request, probe.info)
        doing = "predicting" if probe.info.source == "predicted" else "running"
        on_event(StageStarted("throughput", f"{doing} steps at batch {batch_size}"))
        return probe.info, probe.measure(batch_size)
