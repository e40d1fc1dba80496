"""Streams the events of jobs to watchers, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from weakref import WeakKeyDictionary

from memorymark.errors import QueueFullError
from memorymark.history import Job, JobEvent, views
from memorymark.server.jobs import Jobs
from memorymark.server.live_job import LiveJob
from memorymark.server.settings import Settings

# How long a browser waits before it reconnects.
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"


class EventStreams:
    """Opens streams, each for a limited time, and not too many at once."""

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self.jobs, self.settings = jobs, settings
        self._free = threading.BoundedSemaphore(settings.max_watchers)
        self._lock = threading.Lock()
        self._texts: WeakKeyDictionary[LiveJob, dict[int, asyncio.Future[bytes]]] = WeakKeyDictionary()
        self.count = 0

    def open(self, job: Job, after: int) -> EventStream:
        """Opens a stream of a job's events after this number; a watcher resumes where the last stream ended."""
        if not self._free.acquire(blocking=False):
            limit = self.settings.max_watchers
            sentence = f"all {limit} event streams are in use; poll with Accept: application/json."
            raise QueueFullError(sentence, allowed={"maximum": limit})
        with self._lock:
            self.count += 1
        try:
            return EventStream(self, job, after)
        except BaseException:
            self.closed()
            raise

    def closed(self) -> None:
        """Counts a closed stream."""
        with self._lock:
            self.count -= 1
        self._free.release()

    async def text(self, live: LiveJob, event: JobEvent) -> bytes:
        """Returns an event as text, made once for all watchers, outside the event loop because results can be long."""
        made = self._texts.setdefault(live, {})
        if event.number not in made:
            made[event.number] = asyncio.get_running_loop().run_in_executor(None, _text, event)
        return await asyncio.shield(made[event.number])


class EventStream:
    """An open stream; the sender closes it at its end, or when the watcher is gone."""

    def __init__(self, streams: EventStreams, job: Job, after: int) -> None:
        self._streams, self._job, self._after = streams, job, after
        self._live = streams.jobs.live(job.id)
        # All events of a finished job.
        self._kept = b"" if self._live is not None else b"".join(map(_text, streams.jobs.events(job, after)))
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        """Yields the stream to a thread that sends it."""
        settings = self._streams.settings
        ends_at = time.monotonic() + settings.stream_seconds
        yield RETRY
        for happened in self._streams.jobs.watch(self._job, self._after, settings.heartbeat_seconds):
            yield b"".join(map(_text, happened)) or HEARTBEAT
            if time.monotonic() > ends_at:
                return

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields the stream to an event loop, without holding a thread."""
        yield RETRY + self._kept
        if self._live is None:
            return
        settings, loop = self._streams.settings, asyncio.get_running_loop()
        changed, after, ends_at = asyncio.Event(), self._after, time.monotonic() + settings.stream_seconds

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        with self._live.listening(wake):
            while True:
                happened, job = self._live.told(after)
                for event in happened:
                    yield await self._streams.text(self._live, event)
                    after = event.number
                if job.is_finished or self._streams.jobs.is_stopping or time.monotonic() > ends_at:
                    return
                try:
                    await asyncio.wait_for(changed.wait(), settings.heartbeat_seconds)
                except asyncio.TimeoutError:
                    yield HEARTBEAT
                changed.clear()

    def close(self) -> None:
        """Closes the stream and makes room for another."""
        if self._is_open:
            self._is_open = False
            self._streams.closed()


def _text(event: JobEvent) -> bytes:
    view = views.happened(event, "http")
    return f"id: {view['id']}\nevent: {view['event']}\ndata: {json.dumps(view)}\n\n".encode()
