"""A job that waits or runs now: its record, its events, and those who listen."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from memorymark.errors import HistoryError
from memorymark.history import Job, JobEvent, Store
from memorymark.question import Question
from memorymark.server.warm_workers import Lease

log = logging.getLogger(__name__)


class LiveJob:
    """The one place where a job changes. What changes is written to the history first and told to listeners then."""

    def __init__(self, job: Job, store: Store, *, max_seconds: float) -> None:
        self.job = job
        self.time_limit_seconds = min(job.time_limit_seconds or max_seconds, max_seconds)
        self.lease = Lease()
        self._store = store
        self._changed = threading.Condition(threading.RLock())
        self._events: list[JobEvent] = []
        self._unsaved: list[JobEvent] = []
        self.is_woken = False
        self._told = (job, 0)
        self._listeners: list[Callable[[], None]] = []
        self.is_saved = True

    @cached_property
    def question(self) -> Question:
        """What was asked, read once; raises as the job's does."""
        return self.job.question

    def add(self) -> None:
        """Writes the new job; it is not accepted before this returns."""
        first = self._next_event("state", {"state": self.job.state})
        self._store.add(self.job, [first])
        self._events.append(first)
        self._publish()

    def resume(self) -> None:
        """Goes on with a job that an earlier server wrote."""
        self._events = self._store.events(self.job.id)
        self._publish()

    def tell(self, event: str, data: dict[str, Any], **changes: Any) -> None:
        """Something happened, and with it some fields of the job changed."""
        with self._changed:
            changed = replace(self.job, **changes)
            happened = self._next_event(event, data)
            self._unsaved.append(happened)
            self._save(changed)
            self.job = changed
            self._events.append(happened)
            self._publish()

    def save(self) -> bool:
        """Tries again to write what could not be written."""
        with self._changed:
            self._save(self.job)
            return self.is_saved

    def events(self, after: int = 0) -> list[JobEvent]:
        """What has happened after the event with this number."""
        with self._changed:
            return [with_result(event, self.job) for event in self._events[max(after, 0) :]]

    def watch(self, after: int, heartbeat_seconds: float) -> Iterator[list[JobEvent]]:
        """Events as they come, and an empty list whenever nothing came for a while; ends with the job."""
        is_over = False
        while not is_over:
            with self._changed:
                if len(self._events) <= after and not self.job.is_finished:
                    self._changed.wait(heartbeat_seconds)
                happened, is_over = self.events(after), self.job.is_finished
            after += len(happened)
            yield happened

    def told(self, after: int = 0) -> tuple[list[JobEvent], Job]:
        """What has happened after the event with this number, and the job as it is since; never waits for a writer."""
        job, count = self._told
        return [with_result(event, job) for event in self._events[:count] if event.number > after], job

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
            self._told = (self.job, len(self._events))
            self._changed.notify_all()
        for on_change in list(self._listeners):
            on_change()

    def _next_event(self, event: str, data: dict[str, Any]) -> JobEvent:
        return JobEvent(len(self._events) + 1, event, data, time.time())

    def _save(self, job: Job) -> None:
        if self.is_saved and not self._unsaved:
            return
        try:
            self._store.save(job, self._unsaved)
        except HistoryError as error:
            if self.is_saved:
                log.warning("what happened cannot be written: %s", error, extra={"job": self.job.id})
            self.is_saved = False
        else:
            self._unsaved, self.is_saved = [], True


def with_result(event: JobEvent, job: Job) -> JobEvent:
    """The last event with the result in it, which is kept once, with the job."""
    return replace(event, data=job.result) if event.event == "result" and job.result is not None else event
