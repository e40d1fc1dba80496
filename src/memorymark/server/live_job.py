"""A queued or running job: its record, its events and its listeners."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from memorymark.errors import HistoryError, MemoryMarkError, ServerError, UnwritableError
from memorymark.history import Job, JobEvent, Store
from memorymark.history.configs import hashes_in, put_away
from memorymark.history.failures import kept
from memorymark.history.job import State
from memorymark.question.question import Question
from memorymark.question.target import Target
from memorymark.server.warm_workers import Lease

log = logging.getLogger(__name__)

UNWRITTEN = "changes to this job cannot be written to the history; the service's log says why."


@dataclass(frozen=True)
class Place:
    """What decides which lane answers a question."""

    compares_gpus: bool
    target: Target

    @classmethod
    def of(cls, question: Question) -> Place:
        """Returns the place of a question."""
        return cls(question.compares_gpus, question.request.target)


class LiveJob:
    """The only place where a job changes. Writes each change to the history first, then notifies listeners."""

    def __init__(self, job: Job, store: Store, *, max_seconds: float) -> None:
        self.job = job
        self.time_limit_seconds = min(job.time_limit_seconds or max_seconds, max_seconds)
        self.lease = Lease()
        self._store = store
        # Two locks, so that readers and listeners do not wait for a write.
        self._writing = threading.Lock()
        self._changed = threading.Condition(threading.RLock())
        self._events: list[JobEvent] = []
        self._unsaved: list[JobEvent] = []
        self.is_woken = False
        self._listeners: list[Callable[[], None]] = []
        self.is_saved = True

    @cached_property
    def place(self) -> Place:
        """Where the job can be answered; raises if its question cannot be read."""
        return Place.of(self.whole.question)

    @property
    def whole(self) -> Job:
        """The complete job; waiting jobs do not keep their configs, which are large, in memory."""
        job = self.job
        kept = self._store.job(job.id) if hashes_in(job.asked) else None
        return replace(job, asked=kept.asked) if kept is not None else job

    def add(self) -> None:
        """Writes the new job, which is accepted only when this returns."""
        first = self._next_event("state", {"state": self.job.state})
        self._store.add(self.job, [first])
        self._events.append(first)
        self._publish()
        self.rest()

    def rest(self) -> None:
        """Drops from memory what a waiting job does not need."""
        _ = self.place
        self.job = replace(self.job, asked=put_away(self.job.asked)[0] or {})

    def resume(self) -> None:
        """Loads the events of a job that an earlier server wrote."""
        self._events = self._store.events(self.job.id)
        self._publish()

    def tell(self, event: str, data: dict[str, Any], **changes: Any) -> None:
        """Adds an event and changes fields of the job; does nothing after its end."""
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
        """Tries again to write what could not be written; returns whether the job has ended and is fully written."""
        with self._writing:
            if not self.is_saved and not self._can_be_written(self.job):
                self._fail_unwritten()
            return self.is_saved and self.job.is_finished

    def events(self, after: int = 0) -> list[JobEvent]:
        """Returns the events after the one with this number."""
        with self._changed:
            return [with_result(event, self.job) for event in self._events if event.number > after]

    def watch(self, after: int, heartbeat_seconds: float) -> Iterator[list[JobEvent]]:
        """Yields events as they happen, and an empty list after each silence; ends with the job."""
        is_over = False
        while not is_over:
            with self._changed:
                if not self.events(after) and not self.job.is_finished:
                    self._changed.wait(heartbeat_seconds)
                happened, is_over = self.events(after), self.job.is_finished
            after = happened[-1].number if happened else after
            yield happened

    def told(self, after: int = 0) -> tuple[list[JobEvent], Job]:
        """Returns the events after the one with this number, and the job as of then; never waits for a write."""
        with self._changed:
            return self.events(after), self.job

    @contextmanager
    def listening(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Calls back after every change and when the service shuts down, from any thread."""
        self._listeners.append(on_change)
        try:
            yield
        finally:
            self._listeners.remove(on_change)

    def wake(self) -> None:
        """Wakes all listeners and waiters, because the service is shutting down."""
        with self._changed:
            self.is_woken = True
            self._publish()

    def wait(self, seconds: float) -> Job:
        """Waits for the job and returns it when it is finished or the time is up."""
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
        """Writes the job and its unsaved events, now or later; returns false if a later try cannot help either."""
        try:
            self._store.save(job, self._unsaved)
        except UnwritableError:
            log.exception("a job cannot be written", extra={"job": job.id})
            return False
        except HistoryError as error:
            if self.is_saved:
                log.warning("a change cannot be written: %s", error, extra={"job": job.id})
            self.is_saved = False
        else:
            self._unsaved, self.is_saved = [], True
        return True

    def _fail_unwritten(self) -> None:
        """Ends the job with an error that can certainly be written, so that it does not stay unsaved forever."""
        self.lease.stop(UNWRITTEN)
        outcome = ended("failed", ServerError(UNWRITTEN, code="internal"))
        happened = self._next_event("error", outcome.pop("data"))
        job = replace(self.job, **{**outcome, "result": None})
        self._unsaved = [happened]
        if not self._can_be_written(job):
            self._unsaved, self.is_saved = [], True  # the next start of the service ends the job
        self._show(job, happened)


def ended(state: State, error: MemoryMarkError) -> dict[str, Any]:
    """Returns the event data and the changed fields of a job that ended without an answer."""
    why = {"state": state, **kept(error, "http")}
    return {"data": why, **why, "finished_at": time.time()}


def with_result(event: JobEvent, job: Job) -> JobEvent:
    """Adds the result to the last event; it is stored only once, with the job."""
    return replace(event, data=job.result) if event.event == "result" and job.result is not None else event
