"""Where the work of a request is done: in a worker process, or in this one."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.events import StageStarted
from memorymark.probe.local import LocalProbe
from memorymark.probe.process import Workers
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS, RemoteProbe
from memorymark.request import Request
from memorymark.workload import Workload


@dataclass(frozen=True)
class Site:
    """Where the work is done: in a worker process, or in this one if there is a ``workload`` that lives here only.

    Only whoever runs the worker keeps traces on disk: where workers are lent, by a service say, others ask.
    """

    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS
    workers: Workers | None = None
    workload: Workload | None = None
    keep_traces: bool = False

    def open(self, request: Request, *, predict_without_gpu: bool = False) -> LocalProbe | RemoteProbe:
        """The probe of a request, not yet entered; what is wrong with the limits is said here, before any work."""
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
        """The start of the work, as listeners hear it."""
        where = "" if self.workload is not None else "starting a worker and "
        return StageStarted("start", f"{where}{what} {request.entry.name}")
