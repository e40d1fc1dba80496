"""Checks of the tool itself: does the backward pass run, does torch.compile pay off, is the prediction right?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from memorymark.devices import nvml
from memorymark.devices.resolve import device_here, on_device
from memorymark.documents import LEFT_OUT, Document, in_document
from memorymark.engine.analyze import analyze_with
from memorymark.engine.search import TrialLog, search_with
from memorymark.engine.site import Site
from memorymark.engine.targets import require_run
from memorymark.errors import DoesNotFitError, UsageError
from memorymark.events import OnEvent, StageStarted, TrialFinished, ignore
from memorymark.messages import Message
from memorymark.question.limits import NO_LIMIT
from memorymark.question.question import Question, require_batch_size
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.training.workload import Workload
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS, RemoteProbe

Verdict = Literal["PASS", "WARN", "FAIL"]
# Below this ratio, activations were not kept for a backward pass. 2 to 3 is published; an A10 showed 3.34.
NOT_RUNNING_BELOW = 1.5
USUAL_FROM = 2.0


@dataclass(frozen=True)
class BackwardCheck(Document):
    """The peak allocated bytes of three ways to run a step, with a verdict on their ratio."""

    kind: ClassVar[Literal["backward_check"]] = "backward_check"

    batch_size: int
    forward_bytes: int
    forward_backward_bytes: int
    full_step_bytes: int

    @property
    @in_document
    def ratio(self) -> float:
        """Forward and backward over forward alone."""
        return self.forward_backward_bytes / self.forward_bytes

    @property
    @in_document
    def verdict(self) -> Verdict:
        """FAIL below 1.5, WARN below the usual 2, else PASS."""
        return "FAIL" if self.ratio < NOT_RUNNING_BELOW else "WARN" if self.ratio < USUAL_FROM else "PASS"

    @property
    @in_document
    def explanation(self) -> str:
        """The verdict in a sentence."""
        return {
            "FAIL": "the backward pass does not run, or the forward pass keeps no activations for it.",
            "WARN": "the backward pass runs, but few activations are kept; a larger batch shows more.",
            "PASS": "the backward pass runs.",
        }[self.verdict]


@dataclass(frozen=True)
class CompileCheck(Document):
    """The same step, eager and compiled."""

    kind: ClassVar[Literal["compile_check"]] = "compile_check"

    eager: Trial
    compiled: Trial
    compile_seconds: float

    @property
    @in_document
    def speedup(self) -> float:
        """Eager step time over compiled step time."""
        return (self.eager.step_seconds or 0.0) / (self.compiled.step_seconds or 1.0)

    @property
    @in_document
    def pays_off_after_steps(self) -> int | None:
        """Steps after which the time spent compiling has come back; ``None`` if it never does."""
        gain_seconds = (self.eager.step_seconds or 0.0) - (self.compiled.step_seconds or 0.0)
        return round(self.compile_seconds / gain_seconds) if gain_seconds > 0 else None


@dataclass(frozen=True)
class TrialPair(Document):
    """One size, measured and predicted."""

    measured: Trial
    predicted: Trial


@dataclass(frozen=True)
class PredictionCheck(Document):
    """The same sizes measured here and predicted for the GPU here."""

    kind: ClassVar[Literal["prediction_check"]] = "prediction_check"

    request: Request = field(metadata=LEFT_OUT)
    info: ProbeInfo = field(metadata=LEFT_OUT)
    pairs: list[tuple[Trial, Trial]] = field(metadata=LEFT_OUT)
    measured_maximum: int
    predicted_maximum: int

    @property
    @in_document
    def maximum_error(self) -> float:
        """The error of the predicted maximum, as a fraction of the measured one."""
        return self.predicted_maximum / self.measured_maximum - 1

    @property
    @in_document
    def gpu_name(self) -> str:
        """The GPU here."""
        return self.info.device_name

    @property
    @in_document
    def trials(self) -> list[TrialPair]:
        """The sizes that were measured, each with its prediction."""
        return [TrialPair(measured, predicted) for measured, predicted in self.pairs]


def validate_prediction(
    request: Request,
    *,
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS,
    on_event: OnEvent = ignore,
    workload: Workload | None = None,
) -> PredictionCheck:
    """Analyzes on this machine's GPU, then predicts the same sizes for it with the same memory.

    ``workload`` is one that exists only in this process.
    """
    require_run("validate prediction", request)
    target = on_device(request.target, "cuda")
    if not nvml.gpus() or device_here(target, "cuda")[0] != "cuda":
        raise UsageError(
            "validate prediction needs a CUDA GPU in this machine; see `memorymark doctor`.", code="no_device"
        )
    here = replace(request, target=target)
    site = Site(time_limit_seconds, workload=workload)
    with site.open(here) as probe:
        measured = analyze_with(Question(request=here), probe, on_event, time.perf_counter())
    gpu = measured.info.gpu
    if gpu is None:
        raise UsageError(
            f"{measured.info.device_name} is not in the catalog, so nothing can be predicted for it.",
            code="unknown_gpu",
        )
    same_memory = Target(gpu=gpu.id, memory_cap_bytes=min(measured.info.capacity_bytes, gpu.usable_bytes))
    on_event(StageStarted("validate", "predicting the same sizes"))
    timed = [trial for trial in measured.curve if trial.fits and trial.samples_per_second]
    check = _predict_beside(site, replace(request, target=same_memory), timed, measured.max_batch_size)
    return replace(check, request=request, info=measured.info)


def _predict_beside(site: Site, request: Request, measured: list[Trial], maximum: int) -> PredictionCheck:
    """Predicts the measured sizes and the largest one."""
    with site.open(request) as probe:
        pairs = [(trial, probe.measure(trial.batch_size)) for trial in measured]
        found = search_with(probe, NO_LIMIT, TrialLog(ignore))
        return PredictionCheck(request, probe.info, pairs, maximum, found.maximum)


def validate_backward(request: Request, batch_size: int, time_limit_seconds: float, on_event: OnEvent) -> BackwardCheck:
    """Runs the forward pass under no_grad, forward and backward, and the full step."""
    require_run("validate backward", request)
    require_batch_size(batch_size)
    on_event(StageStarted("start", f"starting a worker and building {request.entry.name}"))
    with RemoteProbe(request, time_limit_seconds=time_limit_seconds) as probe:
        on_event(StageStarted("validate", "running forward, forward and backward, and the full step"))
        peaks = probe.phase_peaks(batch_size)
    return BackwardCheck(batch_size, peaks["forward"], peaks["forward_backward"], peaks["full_step"])


def validate_compile(request: Request, batch_size: int, time_limit_seconds: float, on_event: OnEvent) -> CompileCheck:
    """Measures one size eagerly and compiled, each in its own worker."""
    require_run("validate compile", request)
    require_batch_size(batch_size)
    trials: dict[bool, Trial] = {}
    first_seconds: dict[bool, float] = {}
    for compiled in (True, False):  # compiled first, so that a failure shows at once
        how = "compiled" if compiled else "eagerly"
        on_event(StageStarted("validate", f"running {request.entry.name} {how}"))
        asked = replace(request, recipe=replace(request.recipe, compile=compiled))
        with RemoteProbe(asked, time_limit_seconds=time_limit_seconds) as probe:
            start = time.perf_counter()
            first = probe.try_batch(batch_size)
            first_seconds[compiled] = time.perf_counter() - start
            trials[compiled] = probe.measure(batch_size) if first.fits else first
            if not trials[compiled].fits:
                raise DoesNotFitError(
                    f"batch {batch_size} does not fit {how}",
                    hint=Message("use a smaller {batch_size}"),
                    field="batch_size",
                    given=batch_size,
                )
            on_event(TrialFinished("validate", trials[compiled]))
    # The extra time of the first compiled steps over the eager ones was spent compiling.
    return CompileCheck(trials[False], trials[True], max(first_seconds[True] - first_seconds[False], 0.0))
