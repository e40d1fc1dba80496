"""The queue of jobs: those that wait, those that run, and how they end."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from memorymark.devices.resolve import where_no_gpu_is
from memorymark.errors import (
    HistoryError,
    QueueFullError,
    ServerError,
    StoppedError,
    UnwritableError,
    UsageError,
)
from memorymark.history import Job, JobEvent, ListedJob, Store, new_job
from memorymark.history.job import OTHER_VERSION
from memorymark.history.recording import RecordingFacts
from memorymark.messages import Message
from memorymark.question.question import Question
from memorymark.question.target import AUTO
from memorymark.server.history_watch import HistoryWatch
from memorymark.server.lane import CANCELLED, SHUTDOWN, UNREADABLE, Lane, cancelled, interrupted
from memorymark.server.live_job import LiveJob, Place, ended, with_result
from memorymark.server.permission import refuse_code_of
from memorymark.suggestions import meant

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Submitted:
    """A job right after it was submitted; ``is_new`` is false if an earlier answer was reused."""

    job: Job
    is_new: bool


class Jobs:
    """Queues questions, lets lanes answer them in order of arrival, and records everything in the history."""

    recording: RecordingFacts | None = None  # what is played, if all answers come from a recording

    def __init__(
        self, store: Store, lanes: Sequence[Lane], *, queue_size: int, max_seconds: float, allow_code: bool = False
    ) -> None:
        self.store, self.lanes = store, lanes
        self.allow_code = allow_code
        self.queue_size, self._max_seconds = queue_size, max_seconds
        self._line: list[LiveJob] = []
        self._live: dict[str, LiveJob] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._history = HistoryWatch(store)
        # Jobs of an earlier server are taken over once the history can be read; our own jobs must not be among them.
        self._has_taken_over = False
        self._own: set[str] = set()
        self._arriving = 0
        # Jobs whose write seemed to fail, although the database may have stored them.
        self._doubtful: set[str] = set()
        self._caretaker = threading.Thread(target=self._look_after_history, name="history", daemon=True)
        self.ended: Counter[str] = Counter()
        for lane in lanes:
            lane.line = self

    def start(self) -> None:
        """Takes over the jobs of an earlier server, and starts to work."""
        self.take_over()
        self._history.look()
        for lane in self.lanes:
            lane.start()
            if lane.device != "cpu":  # few measure on the CPU, and a worker takes half a gigabyte
                lane.workers.prepare()
        self._caretaker.start()

    def stop(self) -> None:
        """Stops running jobs and marks them as interrupted; queued jobs stay for the next start."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for lane in self.lanes:
            if lane.running is not None:
                lane.running.lease.stop(SHUTDOWN)
        for lane in self.lanes:
            lane.workers.stop()
        for thread in (*self.lanes, self._caretaker):
            if thread.ident is not None:
                thread.join(STOP_SECONDS)
        self.save_what_could_not_be()
        for live in list(self._live.values()):
            live.wake()

    @property
    def is_stopping(self) -> bool:
        """Whether the service is shutting down."""
        return self._stopping.is_set()

    def submit(self, question: Question, *, fresh: bool = False, time_limit_seconds: float | None = None) -> Submitted:
        """Queues a question, or reuses an earlier answer unless ``fresh``."""
        job = self.job_for(question, fresh=fresh, time_limit_seconds=time_limit_seconds)
        if not job.fresh and (known := self.store.answered(job.key)) is not None:
            return Submitted(known, is_new=False)
        live = LiveJob(job, self.store, max_seconds=self._max_seconds)
        with self._place_in_line(job.id):
            self._write_down(live)
            with self._changed:
                self._live[job.id] = live
                self._line.append(live)
                self._changed.notify_all()
        if self.is_stopping:  # it is stored, and continues after the next start
            live.wake()
        log.info("job queued", extra={"job": job.id, "model": job.model, "target": job.target_name})
        return Submitted(job, is_new=True)

    def job_for(self, question: Question, **fields: Any) -> Job:
        """Makes the job of a question; raises if this service may not or cannot answer it."""
        self._require_permission(question)
        return new_job(self._resolved(question), "http", **fields)

    @contextmanager
    def _place_in_line(self, job_id: str) -> Iterator[None]:
        """Reserves a place in the queue while a job is written, which may take a while and must not block others."""
        with self._changed:
            if self.is_stopping:
                raise StoppedError("the service is shutting down; ask again in a moment.")
            waiting = len(self._line) + self._arriving
            if waiting >= self.queue_size:
                raise QueueFullError(f"{waiting} jobs are waiting and no more are taken; ask again later.")
            self._arriving += 1
            if not self._has_taken_over:
                self._own.add(job_id)
        try:
            yield
        finally:
            with self._changed:
                self._arriving -= 1

    def _write_down(self, live: LiveJob) -> None:
        try:
            live.add()
        except UnwritableError:
            log.exception("a question cannot be written")
            raise UsageError(
                "the history cannot store this question; check it for invalid text.", code="malformed"
            ) from None
        except HistoryError as error:
            with self._changed:
                self._doubtful.add(live.job.id)
            self._history.failed(error)
            raise

    def known(self, question: Question) -> Job | None:
        """Returns a job that has already answered the question, or ``None``; writes nothing."""
        job = self.job_for(question)
        return None if job.fresh else self.store.answered(job.key)

    def live(self, job_id: str) -> LiveJob | None:
        """Returns the queued or running job with this id, or ``None``."""
        return self._live.get(job_id)

    def get(self, job_id: str) -> Job | None:
        """Returns the current state of the job with this id, or ``None``."""
        live = self._live.get(job_id)
        return live.whole if live is not None else self.store.job(job_id)

    def position(self, job_id: str) -> int | None:
        """Returns a job's place among those that wait for the same lanes, or ``None`` if it does not wait."""
        with self._changed:
            place = next((live.place for live in self._line if live.job.id == job_id), None)
            if place is None:
                return None
            lanes = [lane for lane in self.lanes if lane.accepts(place)]
            ahead = takewhile(lambda live: live.job.id != job_id, self._line)
            return 1 + sum(any(lane.accepts(live.place) for lane in lanes) for live in ahead)

    def current(self, job: ListedJob) -> ListedJob:
        """Returns the current state of a listed job, which may not be written yet."""
        live = self._live.get(job.id)
        return ListedJob.of(live.job) if live is not None else job

    def cancel(self, job_id: str) -> None:
        """Stops a queued or running job without waiting for its end; a finished job stays the same."""
        with self._changed:
            live = self._live.get(job_id)
            waits = live is not None and live in self._line
            if live is not None and waits:
                self._line.remove(live)
        if live is None:
            return
        live.lease.stop(CANCELLED)
        if waits:
            live.tell("error", **ended("cancelled", cancelled()))
            self.finish(live)

    def wait(self, job_id: str, seconds: float) -> Job | None:
        """Waits for a job and returns it when it is finished or the time is up."""
        live = self._live.get(job_id)
        return live.wait(seconds) if live is not None else self.store.job(job_id)

    def events(self, job: Job, after: int = 0) -> list[JobEvent]:
        """Returns a job's events after the one with this number."""
        live = self._live.get(job.id)
        if live is not None:
            return live.events(after)
        as_ended = self.store.job(job.id) or job
        return [with_result(event, as_ended) for event in self.store.events(job.id, after)]

    def watch(self, job: Job, after: int, heartbeat_seconds: float) -> Iterator[list[JobEvent]]:
        """Yields events as they happen, and an empty list after each silence; ends with the job or the service."""
        live = self._live.get(job.id)
        if live is None:
            yield self.events(self.store.job(job.id) or job, after)
            return
        for happened in live.watch(after, heartbeat_seconds):
            yield happened
            if self.is_stopping:
                return

    def status(self) -> dict[str, Any]:
        """Returns the state of the queue and the lanes."""
        running = [lane.running for lane in self.lanes]
        return {
            "queue": {
                "waiting": len(self._line),
                "running": sum(job is not None for job in running),
                "limit": self.queue_size,
            },
            "workers": [_lane_status(lane) for lane in self.lanes],
        }

    @property
    def problem(self) -> str | None:
        """What the operator should look at, in one sentence, or ``None``; does not use the database."""
        if self._history.problem is not None:
            return self._history.problem
        unsaved = sum(not live.is_saved for live in list(self._live.values()))
        if unsaved:
            return f"changes to {unsaved} of the jobs cannot be written to the history yet; the log says why."
        failed = [lane.name for lane in self.lanes if lane.running is None and lane.workers.state == "failed"]
        return f"workers for {', '.join(failed)} do not start; run `memorymark doctor` there." if failed else None

    def take_over(self) -> None:
        """Takes over the jobs of an earlier server; tries again later if the history cannot be read now."""
        try:
            for job in self.store.unfinished():
                if job.id not in self._own and job.id not in self._live:
                    self._resume(job)
        except HistoryError as error:
            self._history.failed(error)
        else:
            self._has_taken_over = True
            self._own.clear()

    def _settle_doubts(self) -> None:
        """Continues jobs that were stored although the write seemed to fail; else they would wait for a restart."""
        with self._changed:
            doubtful = list(self._doubtful)
        for job_id in doubtful:
            try:
                job = self.store.job(job_id)
            except HistoryError as error:
                self._history.failed(error)
                return
            if job is not None and not job.is_finished:
                self._resume(job)
            with self._changed:
                self._doubtful.discard(job_id)

    def _resume(self, job: Job) -> None:
        live = LiveJob(job, self.store, max_seconds=self._max_seconds)
        live.resume()
        if job.state == "running":
            live.tell("error", **ended("interrupted", interrupted()))
        else:
            try:
                question = job.question
                self._require_permission(question)
                self._require_lane(question)
                live.rest()
            except UsageError as error:  # the catalogs or the devices have changed since
                live.tell("error", **ended("failed", error))
            except HistoryError as error:  # its message names the database, so callers do not get it
                log.warning("%s", error, extra={"job": job.id})
                live.tell("error", **ended("failed", ServerError(UNREADABLE, code="internal")))
            except Exception:  # whatever another version may have written
                log.exception("a job cannot be read", extra={"job": job.id})
                live.tell("error", **ended("failed", ServerError(OTHER_VERSION, code="internal")))
        with self._changed:
            if not live.is_saved or not live.job.is_finished:
                self._live[job.id] = live
            if not live.job.is_finished:
                self._line.append(live)
                self._changed.notify_all()

    def _resolved(self, question: Question) -> Question:
        """Returns the question for a local device, or else with a GPU to predict for."""
        if question.compares_gpus or self._has_lane(question):
            return question
        target = where_no_gpu_is(question.request.target)
        if target.gpu is None:
            self._require_lane(question)
        return replace(question, request=replace(question.request, target=target))

    def _require_permission(self, question: Question) -> None:
        """Raises if the question runs code and the operator does not allow it; an earlier server may have."""
        if not self.allow_code:
            refuse_code_of(question.request)

    def _has_lane(self, question: Question) -> bool:
        return any(lane.accepts(Place.of(question)) for lane in self.lanes)

    def _require_lane(self, question: Question) -> None:
        if not self._has_lane(question):
            here = [lane.device for lane in self.lanes if lane.device]
            asked = question.request.target.device
            raise UsageError(
                Message(
                    "there is no {asked} here, only {here}; name a GPU to predict for with {gpu}.",
                    asked=asked,
                    here=", ".join(here),
                ),
                code="no_device",
                field="device",
                given=asked,
                allowed=[AUTO, *here],
                proposals=meant("device", here),
            )

    def take(self, lane: Lane) -> LiveJob | None:
        """Waits for the next job for a lane and returns it, or ``None`` when the service shuts down."""
        with self._changed:
            while not self.is_stopping:
                for live in self._line:
                    if lane.accepts(live.place) and not self._is_being_answered(live.job):
                        self._line.remove(live)
                        lane.running = live
                        return live
                self._changed.wait()
        return None

    def _is_being_answered(self, job: Job) -> bool:
        """Whether another lane works on the same question, so that its answer can be reused."""
        running = [lane.running for lane in self.lanes]
        return not job.fresh and any(live.job.key == job.key for live in running if live is not None)

    def answered(self, live: LiveJob) -> Job | None:
        """Returns a job that answered the same question while this one waited, or ``None``."""
        return None if live.job.fresh else self.store.answered(live.job.key)

    def finish(self, live: LiveJob) -> None:
        """Counts an ended job, and drops it from memory once it is written."""
        self.ended[live.job.state] += 1
        if live.is_saved:
            self._live.pop(live.job.id, None)
        with self._changed:
            self._changed.notify_all()

    def _look_after_history(self) -> None:
        """Writes what could not be written before, so that a full disk loses no answer and no job."""
        while not self._stopping.wait(RETRY_SECONDS):
            try:
                if not self._has_taken_over:
                    self.take_over()
                self._settle_doubts()
                self.save_what_could_not_be()
                self._history.look()
            except Exception:  # the thread must survive: the next round may succeed
                log.exception("maintaining the history failed")

    def save_what_could_not_be(self) -> None:
        """Tries again to write what could not be written."""
        until = time.monotonic() + STOP_SECONDS
        for live in [live for live in list(self._live.values()) if not live.is_saved]:
            if live.save():
                self._live.pop(live.job.id, None)
            if time.monotonic() > until:
                return  # another writer is busy, so the others cannot be written either


def _lane_status(lane: Lane) -> dict[str, Any]:
    running, waiting = lane.running, lane.workers.state
    return {
        "name": lane.name,
        "device": lane.device or "prediction",
        "state": "busy" if running is not None else "idle" if waiting in ("none", "ready") else waiting,
        "pid": running.lease.pid if running is not None else lane.workers.pid,
        "job": running.job.id if running is not None else None,
    }
