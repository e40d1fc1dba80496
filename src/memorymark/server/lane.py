"""A lane: a thread with a worker process of its own that runs one job at a time."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any, Protocol

from memorymark import engine
from memorymark.errors import HistoryError, MemoryMarkError, StoppedError, WorkerError
from memorymark.events import Event
from memorymark.history import Job
from memorymark.history.job import error_kind, suggestions_of
from memorymark.question import Question
from memorymark.server.live_job import LiveJob, Place, ended
from memorymark.server.warm_workers import Lease, WarmWorkers

log = logging.getLogger(__name__)

CANCELLED = "cancelled"
TIME_LIMIT = "time limit"
SHUTDOWN = "shutdown"
UNREADABLE = "the history could not be read when this job was due; ask again."
INTERRUPTED = "the server stopped while this ran; ask again."


class Line(Protocol):
    """Where a lane's work comes from."""

    def take(self, lane: Lane) -> LiveJob | None:
        """The next job for the lane, as soon as there is one; ``None`` when there will be no more."""

    def finish(self, job: LiveJob) -> None:
        """The lane is done with a job."""

    def answered(self, job: LiveJob) -> Job | None:
        """An answer to the same question that came while the job waited."""


class Lane(threading.Thread):
    """Takes jobs from the line and answers them, until there are no more.

    ``device`` is the device here that the lane measures on; a lane without one predicts.
    """

    def __init__(self, name: str, workers: WarmWorkers, device: str | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self.workers, self.device = workers, device
        self.running: LiveJob | None = None
        self.line: Line

    def accepts(self, place: Place) -> bool:
        """Whether questions for a place are for this lane."""
        target = place.target
        if place.all_gpus or target.gpu is not None:
            return self.device is None
        if self.device is None or target.device == "auto":
            return self.device is not None and self.device != "cpu"
        return self.device == ("cuda:0" if target.device == "cuda" else target.device)

    def run(self) -> None:
        """Works through the line."""
        while (job := self.line.take(self)) is not None:
            self.running = job
            try:
                self._work(job)
            except Exception:  # the lane must live: the next job may be fine
                log.exception("a job broke the lane", extra={"job": job.job.id})
                job.tell("error", **ended("failed", "internal", "something went wrong inside the service."))
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
        except HistoryError:  # then it is worked out
            known = None
        if known is not None:
            job.tell("stage", {"stage": "start", "message": f"job {known.id} has just answered the same"})
            job.tell("result", {}, state="done", result=known.result, finished_at=time.time())
            return
        lease = job.lease
        timer = threading.Timer(job.time_limit_seconds, lease.stop, [TIME_LIMIT])
        timer.daemon = True
        timer.start()
        try:
            result = engine.answer(
                self._placed(job.whole.question),
                time_limit_seconds=job.time_limit_seconds,
                on_event=lambda event: _tell(job, lease, event),
                workers=lease.of(self.workers),
            )
            if lease.stopped is not None:  # advice goes on without an option whose worker ends
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

    def _placed(self, question: Question) -> Question:
        """The question with the device of this lane in place of ``auto``."""
        target = question.request.target
        if self.device is None or target.device != "auto":
            return question
        placed = replace(question.request, target=replace(target, device=self.device))
        return replace(question, request=placed)

    def _failure(self, error: MemoryMarkError, lease: Lease, job: LiveJob) -> dict[str, Any]:
        if lease.stopped == CANCELLED:
            return ended("cancelled", None, "cancelled.")
        if lease.stopped == SHUTDOWN:
            return ended("interrupted", "stopped", INTERRUPTED)
        if lease.stopped == TIME_LIMIT:
            limit = f"its limit of {job.time_limit_seconds:g} s"
            sentence = f"it took longer than {limit}; ask with a longer time_limit, if the server allows it."
            return ended("failed", "time_limit", sentence)
        if isinstance(error, HistoryError):
            log.warning("%s", error, extra={"job": job.job.id})
            return ended("failed", "internal", UNREADABLE)
        if error.detail:
            log.warning("job failed: %s", error.detail, extra={"job": job.job.id, "lane": self.name})
        return ended("failed", error_kind(error), over_the_wall(error), suggestions_of(error))


def over_the_wall(error: MemoryMarkError) -> str:
    """What callers are told of an error: its sentence, never what a library or a model said."""
    if error.detail and isinstance(error, WorkerError):
        return f"{error.sentence.rstrip('.')}; the service's log says why."
    return error.sentence


def _tell(job: LiveJob, lease: Lease, event: Event) -> None:
    if lease.stopped is not None:
        raise StoppedError(lease.stopped)
    facts = event.to_dict()
    job.tell(facts.pop("event"), facts)
