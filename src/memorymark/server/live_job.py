"""A job that waits or runs now: its record, its events, and those who listen."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from memorymark.errors import HistoryError, UnwritableError
from memorymark.history import Job, JobEvent, Store
from memorymark.history.configs import hashes_in, put_away
from memorymark.history.job import ErrorKind, State
from memorymark.question import Question
from memorymark.server.warm_workers import Lease
from memorymark.target import Target

log = logging.getLogger(__name__)

UNWRITTEN = "what happened to this job cannot be written to the history; the log of the service says why."


@dataclass(frozen=True)
class Place:
    """What decides which lane answers a question."""

    all_gpus: bool
    target: Target

    @classmethod
    def of(cls, question: Question) -> Place:
        """That of a question."""
        return cls(question.all_gpus, question.request.target)


class LiveJob:
    """The one place where a job changes. What changes is written to the history first and told to listeners then."""

    def __init__(self, job: Job, store: Store, *, max_seconds: float) -> None:
        self.job = job
        self.time_limit_seconds = min(job.time_limit_seconds or max_seconds, max_seconds)
        self.lease = Lease()
        self._store = store
        # Apart: whoever looks or listens does not wait for a write.
        self._writing = threading.Lock()
        self._changed = threading.Condition(threading.RLock())
        self._events: list[JobEvent] = []
        self._unsaved: list[JobEvent] = []
        self.is_woken = False
        self._listeners: list[Callable[[], None]] = []
        self.is_saved = True

    @cached_property
    def place(self) -> Place:
        """Where it can be answered; raises as the job's question does."""
        return Place.of(self.whole.question)

    @property
    def whole(self) -> Job:
        """The job with all of its question: a config is large, and not kept in memory by whoever waits."""
        job = self.job
        kept = self._store.job(job.id) if hashes_in(job.asked) else None
        return replace(job, asked=kept.asked) if kept is not None else job

    def add(self) -> None:
        """Writes the new job; it is not accepted before this returns."""
        first = self._next_event("state", {"state": self.job.state})
        self._store.add(self.job, [first])
        self._events.append(first)
        self._publish()
        self.rest()

    def rest(self) -> None:
        """Keeps no more in memory than a job needs that waits."""
        _ = self.place
        self.job = replace(self.job, asked=put_away(self.job.asked)[0] or {})

    def resume(self) -> None:
        """Goes on with a job that an earlier server wrote."""
        self._events = self._store.events(self.job.id)
        self._publish()

    def tell(self, event: str, data: dict[str, Any], **changes: Any) -> None:
        """Something happened, and with it some fields of the job changed; after its end nothing happens to a job."""
        with self._writing:
            if self.job.is_finished:
                return
            changed, happened = replace(self.job, **changes), self._next_event(event, data)
            self._unsaved.append(happened)
            if self.is_saved and not self._can_be_written(changed):
                self._fail_unwritten()
                return
            self._show(changed, happened)

    def save(self) -> bool:
        """Tries again to write what could not be written; whether the job has ended and all of it is written."""
        with self._writing:
            if not self.is_saved and not self._can_be_written(self.job):
                self._fail_unwritten()
            return self.is_saved and self.job.is_finished

    def events(self, after: int = 0) -> list[JobEvent]:
        """What has happened after the event with this number."""
        with self._changed:
            return [with_result(event, self.job) for event in self._events if event.number > after]

    def watch(self, after: int, heartbeat_seconds: float) -> Iterator[list[JobEvent]]:
        """Events as they come, and an empty list whenever nothing came for a while; ends with the job."""
        is_over = False
        while not is_over:
            with self._changed:
                if not self.events(after) and not self.job.is_finished:
                    self._changed.wait(heartbeat_seconds)
                happened, is_over = self.events(after), self.job.is_finished
            after = happened[-1].number if happened else after
            yield happened

    def told(self, after: int = 0) -> tuple[list[JobEvent], Job]:
        """What has happened after the event with this number, and the job as it is since; never waits for a writer."""
        with self._changed:
            return self.events(after), self.job

    @contextmanager
    def listening(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Calls back, from whichever thread, after every change and when the service shuts down."""
        self._listeners.append(on_change)
        try:
            yield
        finally:
            self._listeners.remove(on_change)

    def wake(self) -> None:
        """Has those who listen or wait look up, because the service is shutting down."""
        with self._changed:
            self.is_woken = True
            self._publish()

    def wait(self, seconds: float) -> Job:
        """The job as soon as it is finished, or as it is after so long."""
        with self._changed:
            self._changed.wait_for(lambda: self.job.is_finished or self.is_woken, seconds)
            return self.job

    def _publish(self) -> None:
        with self._changed:
            self._changed.notify_all()
        for on_change in list(self._listeners):
            on_change()

    def _next_event(self, event: str, data: dict[str, Any]) -> JobEvent:
        number = self._events[-1].number + 1 if self._events else 1
        return JobEvent(number, event, data, time.time())

    def _show(self, job: Job, happened: JobEvent) -> None:
        with self._changed:
            self.job = job
            self._events.append(happened)
        self._publish()

    def _can_be_written(self, job: Job) -> bool:
        """Writes the job and what is unsaved, now or later; false if no later try can help either."""
        try:
            self._store.save(job, self._unsaved)
        except UnwritableError:
            log.exception("a job cannot be written", extra={"job": job.id})
            return False
        except HistoryError as error:
            if self.is_saved:
                log.warning("what happened cannot be written: %s", error, extra={"job": job.id})
            self.is_saved = False
        else:
            self._unsaved, self.is_saved = [], True
        return True

    def _fail_unwritten(self) -> None:
        """Ends the job with what can be written for certain; its own fault must not be the service's for ever."""
        self.lease.stop(UNWRITTEN)
        outcome = ended("failed", "internal", UNWRITTEN)
        happened = self._next_event("error", outcome.pop("data"))
        job = replace(self.job, **{**outcome, "result": None})
        self._unsaved = [happened]
        if not self._can_be_written(job):
            self._unsaved, self.is_saved = [], True  # the next start of the service puts it in order
        self._show(job, happened)


def ended(
    state: State, kind: ErrorKind | None, sentence: str, suggestions: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """What is told of a job that ended without an answer, and how its record changes."""
    why = {"state": state, "error": sentence, "error_kind": kind, "suggestions": suggestions}
    return {"data": why, **why, "finished_at": time.time()}


def with_result(event: JobEvent, job: Job) -> JobEvent:
    """The last event with the result in it, which is kept once, with the job."""
    return replace(event, data=job.result) if event.event == "result" and job.result is not None else event
