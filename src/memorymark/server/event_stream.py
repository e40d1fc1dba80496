"""Server-sent events: what happens to a job, sent to whoever watches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

from memorymark.errors import QueueFullError
from memorymark.history import Job, views
from memorymark.server.answers import in_http_terms
from memorymark.server.jobs import Jobs
from memorymark.server.settings import Settings

# How long a browser waits before it connects again.
RETRY = "retry: 1000\n\n"
HEARTBEAT = ": still here\n\n"


class EventStreams:
    """Opens streams, each of a bounded life, and not too many at a time."""

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs, self._settings = jobs, settings
        self._free = threading.BoundedSemaphore(settings.max_watchers)
        self._lock = threading.Lock()
        self.count = 0

    def open(self, job: Job, after: int) -> EventStream:
        """The events of a job from the one after this number on; whoever watches resumes where a stream ended."""
        if not self._free.acquire(blocking=False):
            limit = self._settings.max_watchers
            raise QueueFullError(f"{limit} streams are open and no more can be; poll with Accept: application/json.")
        with self._lock:
            self.count += 1
        return EventStream(self, self._events(job, after))

    def closed(self) -> None:
        """One stream less."""
        with self._lock:
            self.count -= 1
        self._free.release()

    def _events(self, job: Job, after: int) -> Iterator[bytes]:
        ends_at = time.monotonic() + self._settings.stream_seconds
        yield RETRY.encode()
        for happened in self._jobs.watch(job, after, self._settings.heartbeat_seconds):
            for event in happened:
                view = in_http_terms(views.happened(event))
                yield f"id: {view['id']}\nevent: {view['event']}\ndata: {json.dumps(view)}\n\n".encode()
            if not happened:
                yield HEARTBEAT.encode()
            if time.monotonic() > ends_at:
                return


class EventStream:
    """An open stream; the server closes it at its end, or when the watcher is gone."""

    def __init__(self, streams: EventStreams, events: Iterator[bytes]) -> None:
        self._streams, self._events = streams, events
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        """Makes room for another."""
        if self._is_open:
            self._is_open = False
            self._streams.closed()
