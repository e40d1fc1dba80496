"""The line of jobs: who waits, who runs, and what becomes of them."""

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

from memorymark.errors import (
    HistoryError,
    NotAllowedError,
    QueueFullError,
    StoppedError,
    UnwritableError,
    UsageError,
)
from memorymark.history import Job, JobEvent, ListedJob, Store, new_job
from memorymark.history.job import OTHER_VERSION
from memorymark.question import Question
from memorymark.server.history_watch import HistoryWatch
from memorymark.server.lane import CANCELLED, INTERRUPTED, SHUTDOWN, UNREADABLE, Lane
from memorymark.server.live_job import LiveJob, Place, ended, with_result
from memorymark.target import default_gpu_target

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Submitted:
    """A job as it stands right after it was asked for; ``is_new`` is false where an earlier answer was there."""

    job: Job
    is_new: bool


class Jobs:
    """Takes questions, has lanes answer them in the order of their arrival, and remembers everything in the history."""

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
        # What an earlier server left is put in order when the history can be read; our own jobs are not of those.
        self._has_taken_over = False
        self._own: set[str] = set()
        self._arriving = 0
        # Jobs that could not be written, as far as we heard; the database may have kept them all the same.
        self._doubtful: set[str] = set()
        self._caretaker = threading.Thread(target=self._look_after_history, name="history", daemon=True)
        self.ended: Counter[str] = Counter()
        for lane in lanes:
            lane.line = self

    def start(self) -> None:
        """Puts what an earlier server left behind in order, and starts to work."""
        self._take_over()
        self._history.look()
        for lane in self.lanes:
            lane.start()
            if lane.device != "cpu":  # where few measure, and a worker takes half a gigabyte
                lane.workers.prepare()
        self._caretaker.start()

    def stop(self) -> None:
        """Ends what runs and marks it so; what waits is kept for the next start."""
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
        self._save_what_could_not_be()
        for live in list(self._live.values()):
            live.wake()

    @property
    def is_stopping(self) -> bool:
        """Whether the service is shutting down."""
        return self._stopping.is_set()

    def submit(self, question: Question, *, fresh: bool = False, time_limit_seconds: float | None = None) -> Submitted:
        """Puts a question in line, or finds the answer that is already there, unless a ``fresh`` one is wanted."""
        self._require_permission(question)
        job = new_job(self._resolved(question), "http", fresh=fresh, time_limit_seconds=time_limit_seconds)
        if not fresh and (known := self.store.answered(job.key)) is not None:
            return Submitted(known, is_new=False)
        live = LiveJob(job, self.store, max_seconds=self._max_seconds)
        with self._place_in_line(job.id):
            self._write_down(live)
            with self._changed:
                self._live[job.id] = live
                self._line.append(live)
                self._changed.notify_all()
        if self.is_stopping:  # it is written, and goes on with the next start
            live.wake()
        log.info("job queued", extra={"job": job.id, "model": job.model, "target": job.target_name})
        return Submitted(job, is_new=True)

    @contextmanager
    def _place_in_line(self, job_id: str) -> Iterator[None]:
        """Room in the line while a job is written, which may take a while and must keep nobody else waiting."""
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
            raise UsageError("the history cannot keep this question; look for text in it that is none.") from None
        except HistoryError as error:
            with self._changed:
                self._doubtful.add(live.job.id)
            self._history.failed(error)
            raise

    def known(self, question: Question) -> Job | None:
        """The job that has answered a question already, if one has; writes nothing."""
        self._require_permission(question)
        return self.store.answered(new_job(self._resolved(question), "http").key)

    def live(self, job_id: str) -> LiveJob | None:
        """The job with this id, if it waits or runs."""
        return self._live.get(job_id)

    def get(self, job_id: str) -> Job | None:
        """The job with this id, as it is now."""
        live = self._live.get(job_id)
        return live.whole if live is not None else self.store.job(job_id)

    def position(self, job_id: str) -> int | None:
        """Its place among the jobs that wait for the same lanes; ``None`` if it does not wait."""
        with self._changed:
            place = next((live.place for live in self._line if live.job.id == job_id), None)
            if place is None:
                return None
            lanes = [lane for lane in self.lanes if lane.accepts(place)]
            ahead = takewhile(lambda live: live.job.id != job_id, self._line)
            return 1 + sum(any(lane.accepts(live.place) for lane in lanes) for live in ahead)

    def current(self, job: ListedJob) -> ListedJob:
        """The job as it is now, which may not be written yet."""
        live = self._live.get(job.id)
        return ListedJob.of(live.job) if live is not None else job

    def cancel(self, job_id: str) -> None:
        """Has a job that waits or runs end, and does not wait until it has; one that is finished stays as it is."""
        with self._changed:
            live = self._live.get(job_id)
            waits = live is not None and live in self._line
            if live is not None and waits:
                self._line.remove(live)
        if live is None:
            return
        live.lease.stop(CANCELLED)
        if waits:
            live.tell("error", **ended("cancelled", None, "cancelled."))
            self.finish(live)

    def wait(self, job_id: str, seconds: float) -> Job | None:
        """The job as soon as it is finished, or as it is after so long."""
        live = self._live.get(job_id)
        return live.wait(seconds) if live is not None else self.store.job(job_id)

    def events(self, job: Job, after: int = 0) -> list[JobEvent]:
        """What has happened to a job after the event with this number."""
        live = self._live.get(job.id)
        if live is not None:
            return live.events(after)
        as_ended = self.store.job(job.id) or job
        return [with_result(event, as_ended) for event in self.store.events(job.id, after)]

    def watch(self, job: Job, after: int, heartbeat_seconds: float) -> Iterator[list[JobEvent]]:
        """Events as they come, an empty list whenever nothing came for a while; ends with the job or the service."""
        live = self._live.get(job.id)
        if live is None:
            yield self.events(self.store.job(job.id) or job, after)
            return
        for happened in live.watch(after, heartbeat_seconds):
            yield happened
            if self.is_stopping:
                return

    def status(self) -> dict[str, Any]:
        """What the line and the lanes hold."""
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
        """What somebody should look at, in one sentence; told without a look at the database."""
        if self._history.problem is not None:
            return self._history.problem
        unsaved = sum(not live.is_saved for live in list(self._live.values()))
        if unsaved:
            return f"what happened to {unsaved} of the jobs cannot be written to the history yet; the log says why."
        failed = [lane.name for lane in self.lanes if lane.running is None and lane.workers.state == "failed"]
        return f"no worker starts for {', '.join(failed)}; run `memorymark doctor` there." if failed else None

    def _take_over(self) -> None:
        """Puts what an earlier server left in order; if the history cannot be read now, that is tried again."""
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
        """Goes on with what was written although the write seemed to fail; nobody else would until the next start."""
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
            live.tell("error", **ended("interrupted", "stopped", INTERRUPTED))
        else:
            try:
                question = job.question
                self._require_permission(question)
                self._require_lane(question)
                live.rest()
            except UsageError as error:  # the catalogs or the devices are not those of the earlier server
                live.tell("error", **ended("failed", "usage", error.sentence))
            except HistoryError as error:  # which names the database
                log.warning("%s", error, extra={"job": job.id})
                live.tell("error", **ended("failed", "internal", UNREADABLE))
            except Exception:  # whatever another version may have written
                log.exception("a job cannot be read", extra={"job": job.id})
                live.tell("error", **ended("failed", "internal", OTHER_VERSION))
        with self._changed:
            if not live.is_saved or not live.job.is_finished:
                self._live[job.id] = live
            if not live.job.is_finished:
                self._line.append(live)
                self._changed.notify_all()

    def _resolved(self, question: Question) -> Question:
        """The question for a device that is here, or else for a GPU to predict for."""
        target = question.request.target
        if question.all_gpus or target.gpu is not None:
            return question
        if target.device != "auto":
            self._require_lane(question)
        elif not any(lane.accepts(Place.of(question)) for lane in self.lanes):
            return replace(question, request=replace(question.request, target=default_gpu_target(target)))
        return question

    def _require_permission(self, question: Question) -> None:
        """Code runs only where the operator allows it; an earlier server's may have, and this one's not."""
        request = question.request
        if not self.allow_code and (request.name.runs_code or request.trust_remote_code):
            raise NotAllowedError(f"{request.entry.id} runs code, which this service does not; see --allow-code.")

    def _require_lane(self, question: Question) -> None:
        if not any(lane.accepts(Place.of(question)) for lane in self.lanes):
            here = ", ".join(lane.device for lane in self.lanes if lane.device)
            asked = question.request.target.device
            raise UsageError(f"there is no {asked} here, only {here}; name a GPU to predict for with --gpu.")

    def take(self, lane: Lane) -> LiveJob | None:
        """The next job for a lane, as soon as there is one; ``None`` when the service shuts down."""
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
        """Whether another lane works on the same question; its answer will be this one's too."""
        running = [lane.running for lane in self.lanes]
        return not job.fresh and any(live.job.key == job.key for live in running if live is not None)

    def answered(self, live: LiveJob) -> Job | None:
        """An answer to the same question that came while the job waited."""
        return None if live.job.fresh else self.store.answered(live.job.key)

    def finish(self, live: LiveJob) -> None:
        """A job has ended; what is written down need not be kept in memory."""
        self.ended[live.job.state] += 1
        if live.is_saved:
            self._live.pop(live.job.id, None)
        with self._changed:
            self._changed.notify_all()

    def _look_after_history(self) -> None:
        """A full disk must cost no answer and leave no job behind: all is made good as soon as there is room."""
        while not self._stopping.wait(RETRY_SECONDS):
            try:
                if not self._has_taken_over:
                    self._take_over()
                self._settle_doubts()
                self._save_what_could_not_be()
                self._history.look()
            except Exception:  # it must live: the next round may be fine
                log.exception("the history could not be looked after")

    def _save_what_could_not_be(self) -> None:
        until = time.monotonic() + STOP_SECONDS
        for live in [live for live in list(self._live.values()) if not live.is_saved]:
            if live.save():
                self._live.pop(live.job.id, None)
            if time.monotonic() > until:
                return  # somebody else writes for long, and the others cannot be written either


def _lane_status(lane: Lane) -> dict[str, Any]:
    running, waiting = lane.running, lane.workers.state
    return {
        "name": lane.name,
        "device": lane.device or "prediction",
        "state": "busy" if running is not None else "idle" if waiting in ("none", "ready") else waiting,
        "pid": running.lease.pid if running is not None else lane.workers.pid,
        "job": running.job.id if running is not None else None,
    }
