"""The state of one search for advice: its question, where steps are predicted and run, and what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import TypeVar

from memorymark.devices.resolve import for_gpu, gpu_here
from memorymark.engine.side_by_side import Relay
from memorymark.engine.site import Site
from memorymark.errors import WorkerLostError
from memorymark.events import OnEvent, Stage, StageStarted, TrialFinished
from memorymark.probe.base import Probe
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.results.option import Fault, Refused, TrainingOption
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.worker.supervisor import KeptWorkers

Found = TypeVar("Found")


class Inquiry:
    """One search for advice, shared by screening, confirming and compiling.

    ``today`` is today's training without gradient accumulation, which is added again where batches are split. ``gpu``
    is this machine's GPU if it is in the catalog: candidates are predicted for it before they run on it. ``info``
    describes the model and the GPU, as the probe of today's training found them.
    """

    info: ProbeInfo

    def __init__(self, question: Question, site: Site, on_event: OnEvent) -> None:
        self.question, self.on_event = question, Relay(on_event)
        self.today = replace(question.request, recipe=replace(question.request.recipe, accumulation_steps=1))
        # Of several GPUs no more than one rank could be run.
        self.gpu = gpu_here(self.today.target) if self.today.recipe.gpus == 1 else None
        self.refused: list[Refused] = []
        self.faults: list[Fault] = []
        self._site, self._kept = site, KeptWorkers(site.workers)

    def lanes(self) -> list[KeptWorkers]:
        """Returns this search's worker, and more of them if its parts may be predicted side by side."""
        more = self._site.lanes - 1 if self.info.source == "predicted" else 0
        return [self._kept, *(KeptWorkers(self._site.workers) for _ in range(more))]

    def apart(self, workers: KeptWorkers) -> Inquiry:
        """Returns this search with a worker and a record of its own."""
        part = copy(self)
        part.refused, part.faults, part._kept = [], [], workers
        return part

    @property
    def safe_bytes(self) -> float:
        """The GPU's memory without the margin."""
        return (1 - self.question.margin) * self.info.capacity_bytes

    def request_of(self, option: TrainingOption) -> Request:
        """Returns today's request with the recipe and sample length of an option."""
        return replace(self.today, recipe=option.recipe, seq_len=option.seq_len or self.today.seq_len)

    def screened(self, request: Request) -> Request:
        """Returns the request to screen: predicted for this machine's GPU if that is in the catalog."""
        if self.gpu is None:
            return request
        # torch.compile cannot be predicted. Both sides of a comparison are screened without it.
        return replace(request, target=for_gpu(request.target, self.gpu), recipe=replace(request.recipe, compile=False))

    @contextmanager
    def opened(self, request: Request) -> Iterator[Probe]:
        """Opens the probe of a request; all probes share one worker."""
        with replace(self._site, workers=self._kept).open(request, predict_without_gpu=True) as probe:
            yield probe

    def measured(self, probe: Probe, batch_size: int) -> Trial:
        """Runs a batch and reports the trial to listeners."""
        trial = probe.measure(batch_size)
        self.on_event(TrialFinished("confirm", trial))
        return trial

    def refuse(self, changes: tuple[str, ...], why: str, *, does_not_fit: bool = False) -> None:
        """Records why some changes do not help."""
        self.refused.append(Refused(changes, why, does_not_fit))

    def retried(self, look: Callable[[], Found]) -> Found:
        """Calls ``look``, and once more with a fresh worker if the first one is lost."""
        try:
            return look()
        except WorkerLostError:
            self.tell("advise", "a worker was lost; trying again with a fresh one")
            return look()

    def miss(self, changes: tuple[str, ...], error: WorkerLostError) -> None:
        """Records that some changes could not be checked because a worker was lost; they may be fine."""
        self.faults.append(Fault(changes, error.reason))

    def tell(self, stage: Stage, message: str) -> None:
        """Tells listeners what happens now."""
        self.on_event(StageStarted(stage, message))

    def close(self) -> None:
        """Returns the shared worker and frees the GPU's memory; a later ``opened`` starts another worker."""
        self._kept.close()


def named(option: TrainingOption) -> tuple[str, ...]:
    """Returns the changes of an option except the batch size, which changes with every recipe."""
    return tuple(change for change in option.changes if change != "batch")


def speed(trial: Trial) -> float:
    """Returns the samples per second, or 0 if the trial was not timed."""
    return trial.samples_per_second or 0.0
