"""Server-sent events: what happens to a job, sent to whoever watches."""

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
from memorymark.server.answers import in_http_terms
from memorymark.server.jobs import Jobs
from memorymark.server.live_job import LiveJob
from memorymark.server.settings import Settings

# How long a browser waits before it connects again.
RETRY = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"


class EventStreams:
    """Opens streams, each of a bounded life, and not too many at a time."""

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self.jobs, self.settings = jobs, settings
        self._free = threading.BoundedSemaphore(settings.max_watchers)
        self._lock = threading.Lock()
        self._texts: WeakKeyDictionary[LiveJob, dict[int, asyncio.Future[bytes]]] = WeakKeyDictionary()
        self.count = 0

    def open(self, job: Job, after: int) -> EventStream:
        """The events of a job from the one after this number on; whoever watches resumes where a stream ended."""
        if not self._free.acquire(blocking=False):
            limit = self.settings.max_watchers
            raise QueueFullError(f"{limit} streams are open and no more can be; poll with Accept: application/json.")
        with self._lock:
            self.count += 1
        try:
            return EventStream(self, job, after)
        except BaseException:
            self.closed()
            raise

    def closed(self) -> None:
        """One stream less."""
        with self._lock:
            self.count -= 1
        self._free.release()

    async def text(self, live: LiveJob, event: JobEvent) -> bytes:
        """An event as it is sent; made once for all who watch, and not in the event loop: a result can be long."""
        made = self._texts.setdefault(live, {})
        if event.number not in made:
            made[event.number] = asyncio.get_running_loop().run_in_executor(None, _text, event)
        return await asyncio.shield(made[event.number])


class EventStream:
    """An open stream; whoever sends it closes it at its end, or when the watcher is gone."""

    def __init__(self, streams: EventStreams, job: Job, after: int) -> None:
        self._streams, self._job, self._after = streams, job, after
        self._live = streams.jobs.live(job.id)
        # Of a job that is finished, all there is to send.
        self._kept = b"" if self._live is not None else b"".join(map(_text, streams.jobs.events(job, after)))
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        """The stream for a thread that sends it."""
        settings = self._streams.settings
        ends_at = time.monotonic() + settings.stream_seconds
        yield RETRY
        for happened in self._streams.jobs.watch(self._job, self._after, settings.heartbeat_seconds):
            yield b"".join(map(_text, happened)) or HEARTBEAT
            if time.monotonic() > ends_at:
                return

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The stream for an event loop, in which it holds no thread."""
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
        """Makes room for another."""
        if self._is_open:
            self._is_open = False
            self._streams.closed()


def _text(event: JobEvent) -> bytes:
    view = in_http_terms(views.happened(event))
    return f"id: {view['id']}\nevent: {view['event']}\ndata: {json.dumps(view)}\n\n".encode()
