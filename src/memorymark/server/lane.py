"""A lane: a thread with its own worker process that runs one job at a time."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any, Protocol

from memorymark import answer as engine
from memorymark.devices.resolve import can_run_on, on_device
from memorymark.errors import HistoryError, MemoryMarkError, ServerError, StoppedError, WorkerError
from memorymark.events import Event
from memorymark.history import Job
from memorymark.messages import Message
from memorymark.question.question import Question
from memorymark.results.result import Result
from memorymark.server.live_job import LiveJob, Place, ended
from memorymark.server.warm_workers import Lease, WarmWorkers

log = logging.getLogger(__name__)

CANCELLED = "cancelled"
TIME_LIMIT = "time limit"
SHUTDOWN = "shutdown"
UNREADABLE = "the history could not be read when this job was to run; ask again."


class Line(Protocol):
    """The queue that a lane takes its jobs from."""

    def take(self, lane: Lane) -> LiveJob | None:
        """Waits for the next job for the lane and returns it, or ``None`` when there will be no more."""

    def finish(self, job: LiveJob) -> None:
        """Called when the lane is done with a job."""

    def answered(self, job: LiveJob) -> Job | None:
        """Returns a job that answered the same question while this one waited, or ``None``."""


class Lane(threading.Thread):
    """Takes jobs from the queue and answers them, until there are no more.

    ``device`` is the device that the lane measures on, as questions name it; a lane without one predicts. ``called``
    is what the device is called where the workers run, if that is another machine.
    """

    def __init__(self, name: str, workers: WarmWorkers, device: str | None = None, called: str | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self.workers, self.device, self._called = workers, device, called
        self.running: LiveJob | None = None
        self.line: Line

    def accepts(self, place: Place) -> bool:
        """Whether this lane answers questions for a place."""
        if self.device is None:
            return place.compares_gpus or place.target.gpu is not None
        return not place.compares_gpus and can_run_on(place.target, self.device)

    def run(self) -> None:
        """Works through the queue."""
        while (job := self.line.take(self)) is not None:
            self.running = job
            try:
                self._work(job)
            except Exception:  # the lane must survive: the next job may succeed
                log.exception("a job broke the lane", extra={"job": job.job.id})
                fault = ServerError("something went wrong inside the service.", code="internal")
                job.tell("error", **ended("failed", fault))
            finally:
                self.running = None
                self.line.finish(job)
                if not self.workers.is_stopped:
                    self.workers.prepare()

    def _work(self, job: LiveJob) -> None:
        job.tell("state", {"state": "running"}, state="running", started_at=time.time())
        log.info("job started", extra={"job": job.job.id, "lane": self.name})
        try:
            known = self.line.answered(job)
        except HistoryError:  # then the question is answered anew
            known = None
        if known is not None:
            job.tell("stage", {"stage": "start", "message": f"job {known.id} has just answered the same question"})
            job.tell("result", {}, state="done", result=known.result, finished_at=time.time())
            return
        lease = job.lease
        timer = threading.Timer(job.time_limit_seconds, lease.stop, [TIME_LIMIT])
        timer.daemon = True
        timer.start()
        try:
            result = self.answer(job)
            if lease.stopped is not None:  # advice continues without an option whose worker ends
                raise StoppedError(lease.stopped)
        except MemoryMarkError as error:
            outcome = self._failure(error, lease, job)
        else:
            document = result.to_dict()
            outcome = {"data": {}, "state": "done", "result": document, "finished_at": time.time()}
        finally:
            timer.cancel()
        job.tell("result" if outcome["state"] == "done" else "error", **outcome)
        log.info("job ended", extra={"job": job.job.id, "lane": self.name, "state": outcome["state"]})

    def answer(self, job: LiveJob) -> Result:
        """Answers a job; raises the error that it ends with."""
        return engine.answer(
            self._placed(job.whole.question),
            time_limit_seconds=job.time_limit_seconds,
            on_event=lambda event: pass_on(job, event),
            workers=job.lease.of(self.workers),
        )

    def _placed(self, question: Question) -> Question:
        """Returns the question with the device of this lane in place of ``auto``."""
        request = question.request
        if self.device is None:
            return question
        target = on_device(request.target, self.device)
        if self._called is not None:
            target = replace(target, device=self._called)
        return replace(question, request=replace(request, target=target))

    def _failure(self, error: MemoryMarkError, lease: Lease, job: LiveJob) -> dict[str, Any]:
        if lease.stopped == CANCELLED:
            return ended("cancelled", cancelled())
        if lease.stopped == SHUTDOWN:
            return ended("interrupted", interrupted())
        if lease.stopped == TIME_LIMIT:
            return ended("failed", _too_long(job.time_limit_seconds))
        if isinstance(error, HistoryError):
            log.warning("%s", error, extra={"job": job.job.id})
            return ended("failed", ServerError(UNREADABLE, code="internal"))
        if error.detail:
            log.warning("job failed: %s", error.detail, extra={"job": job.job.id, "lane": self.name})
            if isinstance(error, WorkerError) and error.hint is None:
                error.hint = Message("the service's log says why")  # callers must not see what a library said
        return ended("failed", error)


def cancelled() -> StoppedError:
    """Returns the error of a cancelled job."""
    return StoppedError("cancelled.", code="cancelled")


def interrupted() -> StoppedError:
    """Returns the error of a job that was running when the service stopped."""
    return StoppedError("the server stopped while this ran; ask again.", code="interrupted")


def _too_long(limit_seconds: float) -> StoppedError:
    return StoppedError(
        Message(
            "it took longer than its limit of {limit:g} s; ask with a longer {time_limit}, if the server allows it.",
            limit=limit_seconds,
        ),
        code="time_limit",
        field="time_limit",
        given=limit_seconds,
    )


def pass_on(job: LiveJob, event: Event) -> None:
    """Tells the listeners of a job what happened; raises if the job has been stopped."""
    if job.lease.stopped is not None:
        raise StoppedError(job.lease.stopped)
    facts = event.to_dict()
    job.tell(facts.pop("event"), facts)
