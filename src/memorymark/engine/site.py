"""Where the work of a request is done: in a worker process, or in this one."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.events import StageStarted
from memorymark.probe.base import OpenProbe
from memorymark.probe.local import LocalProbe
from memorymark.question.request import Request
from memorymark.training.workload import Workload
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS, RemoteProbe
from memorymark.worker.supervisor import Workers


@dataclass(frozen=True)
class Site:
    """Where the work is done: in a worker process, or in this one for a ``workload`` that exists only here.

    Set ``keep_traces`` only where the worker's user is the one who asks: a service answers others and keeps none.
    ``lanes`` is how many workers may be at work at once.
    """

    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS
    workers: Workers | None = None
    workload: Workload | None = None
    keep_traces: bool = False
    lanes: int = 1

    def open(self, request: Request, *, predict_without_gpu: bool = False) -> OpenProbe:
        """Returns the probe of a request, not yet entered; a bad limit raises here, before any work."""
        if self.workload is not None:
            return LocalProbe(self.workload, request.recipe, request.target, predict_without_gpu=predict_without_gpu)
        return RemoteProbe(
            request,
            time_limit_seconds=self.time_limit_seconds,
            predict_without_gpu=predict_without_gpu,
            workers=self.workers,
            keep_traces=self.keep_traces,
        )

    def announce(self, what: str, request: Request) -> StageStarted:
        """Returns the event that tells listeners that the work starts."""
        where = "" if self.workload is not None else "starting a worker and "
        return StageStarted("start", f"{where}{what} {request.entry.name}")
