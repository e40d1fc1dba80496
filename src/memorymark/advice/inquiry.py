"""What an advice is asked about, where its steps are predicted and run, and what has been refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from memorymark.advice.advice import Fault, Option, Refused
from memorymark.devices.here import gpu_here
from memorymark.errors import WorkerLostError
from memorymark.events import OnEvent, Stage, StageStarted, TrialFinished
from memorymark.probe import Probe, ProbeInfo
from memorymark.probe.process import KeptWorkers
from memorymark.question import Question
from memorymark.request import Request
from memorymark.site import Site
from memorymark.trial import Trial

Found = TypeVar("Found")


class Inquiry:
    """One search for advice, shared by those who screen and those who confirm.

    ``today`` is today's training without accumulation, which is put back where batches are split. ``gpu`` is the GPU
    here, if the catalog knows it: candidates are predicted for it before they run on it. ``info`` is what today's
    training tells of the model and the GPU.
    """

    info: ProbeInfo

    def __init__(self, question: Question, site: Site, on_event: OnEvent) -> None:
        self.question, self.on_event = question, on_event
        self.today = replace(question.request, recipe=replace(question.request.recipe, accumulation_steps=1))
        self.gpu = gpu_here(self.today.target)
        self.refused: list[Refused] = []
        self.faults: list[Fault] = []
        self._site, self._kept = site, KeptWorkers(site.workers)

    def request_of(self, option: Option) -> Request:
        """Today's request with an option in its place."""
        return replace(self.today, recipe=option.recipe, seq_len=option.seq_len or self.today.seq_len)

    def screened(self, request: Request) -> Request:
        """A request as it is screened: predicted for the GPU here, if the catalog knows it."""
        if self.gpu is None:
            return request
        target = replace(request.target, device="auto", gpu=self.gpu.id)
        # What will be run is screened without torch.compile, which nobody can predict; both sides of a gain are.
        return replace(request, target=target, recipe=replace(request.recipe, compile=False))

    @contextmanager
    def opened(self, request: Request) -> Iterator[Probe]:
        """The probe of a request; all share a worker."""
        with replace(self._site, workers=self._kept).open(request, predict_without_gpu=True) as probe:
            yield probe

    def measured(self, probe: Probe, batch_size: int) -> Trial:
        """A batch as it runs, which listeners hear of."""
        trial = probe.measure(batch_size)
        self.on_event(TrialFinished("confirm", trial))
        return trial

    def refuse(self, changes: tuple[str, ...], why: str) -> None:
        """Keeps why some changes lead nowhere."""
        self.refused.append(Refused(changes, why))

    def retried(self, look: Callable[[], Found]) -> Found:
        """What a look finds; where its worker is lost, a fresh one looks once more."""
        try:
            return look()
        except WorkerLostError:
            self.tell("advise", "a worker was lost; looking once more with a fresh one")
            return look()

    def miss(self, changes: tuple[str, ...], error: WorkerLostError) -> None:
        """Keeps that some changes could not be looked at, which says nothing about them."""
        self.faults.append(Fault(changes, error.sentence))

    def tell(self, stage: Stage, message: str) -> None:
        """Says what is done now."""
        self.on_event(StageStarted(stage, message))

    def close(self) -> None:
        """Gives the shared worker back, and the GPU its memory; whoever goes on gets another one."""
        self._kept.close()


def named(option: Option) -> tuple[str, ...]:
    """The changes but for that of the batch, which every recipe brings."""
    return tuple(change for change in option.changes if change != "batch")


def speed(trial: Trial) -> float:
    """Samples per second, 0 where the trial was not timed."""
    return trial.samples_per_second or 0.0
