"""The ASGI application in front of the Flask app: dispatches calls to threads and notices callers who hang up.

The event loop answers what must always be quick, and does all the waiting: for bodies, jobs and watchers. Flask answers
everything else in a few threads, which never wait for a job, a caller or a writer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from memorymark.errors import QueueFullError
from memorymark.server.event_stream import EventStream
from memorymark.server.handover import BEGAN, KEY, DeferredWork, Handover
from memorymark.server.jobs import Jobs
from memorymark.server.live_job import LiveJob
from memorymark.server.wsgi import CompleteResponse, answer_of, environ_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

T = TypeVar("T")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
# Answers a call in the event loop itself, or returns None.
Quick = Callable[[Scope], "CompleteResponse | None"]

# Few, so that the event loop never waits long for its turn, since only one Python thread runs at a time.
READING_THREADS = 2
# Calls that search the whole history or render a page have their own threads, apart from quick calls.
SEARCHING_THREADS = 2
# Writes to the history and waits for workers have their own threads too, so that known answers do not wait for them.
WRITING_THREADS = 4
MOST_WAITING = 256
# The limit of all bodies together; above it, only small bodies are accepted.
MOST_BODY_BYTES = 256 * 1024 * 1024
SMALL_BODY_BYTES = 16 * 1024
# How long a watcher may take to read what was sent.
SEND_SECONDS = 30.0


class CallerGoneError(Exception):
    """The caller has hung up."""


class Front:
    """The ASGI application; ``largest_body_bytes`` is the largest body that the Flask app accepts."""

    def __init__(self, app: WSGIApplication, jobs: Jobs, *, quick: Quick, largest_body_bytes: int) -> None:
        self._app, self._jobs, self._quick = app, jobs, quick
        self._largest_body_bytes = largest_body_bytes
        self.reading = ThreadPoolExecutor(READING_THREADS, "reading")
        self._searching = ThreadPoolExecutor(SEARCHING_THREADS, "searching")
        self._writing = ThreadPoolExecutor(WRITING_THREADS, "writing")
        self._waiting = 0
        self._bodies = _Bodies()

    def close(self) -> None:
        """Ends the threads after their current work."""
        for threads in (self.reading, self._searching, self._writing):
            threads.shutdown(cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call."""
        answer = self._quick(scope)
        if answer is not None:
            await _send(send, answer)
            return
        began, body = time.perf_counter(), _Body(self._bodies)
        with suppress(CallerGoneError):
            try:
                await self._answer(scope, receive, send, body, began)
            finally:
                body.uncount()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, body: _Body, began: float) -> None:
        handover = Handover()
        announced = await self._read_body(scope, receive, body, handover)

        def asked() -> CompleteResponse:
            environ = environ_of(scope, bytes(body.content), announced)
            return answer_of(self._app, {**environ, KEY: handover, BEGAN: began})

        call = _Call(scope, receive, send, body)
        threads = self._searching if _takes_long(scope) else self.reading
        try:
            answer = await call.done_by(threads, asked)
            if handover.work is not None:
                await self._carry_out(call, handover, handover.work)
                answer = await call.done_by(threads, asked)
            if handover.stream is None or scope["method"] == "HEAD":
                await _send(send, answer)
            else:
                await call.unless_gone(_send_stream(call, answer, handover.stream))
        finally:
            call.end()
            if handover.stream is not None:
                handover.stream.close()

    async def _read_body(self, scope: Scope, receive: Receive, body: _Body, handover: Handover) -> int | None:
        """Reads the body; if it is announced as too long, skips it and returns that length, which the app rejects."""
        given = dict(scope["headers"]).get(b"content-length", b"0")
        announced = int(given) if given.isdigit() else 0
        if announced > self._largest_body_bytes:
            return announced
        more = True
        while more and len(body.content) <= self._largest_body_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerGoneError
            body.add(message.get("body", b""))
            more = message.get("more_body", False)
            if len(body.content) > SMALL_BODY_BYTES and self._bodies.counted_bytes > MOST_BODY_BYTES:
                handover.fail(QueueFullError("too many large requests are arriving at once; try again in a moment."))
                return None
        return None

    async def _carry_out(self, call: _Call, handover: Handover, work: DeferredWork[Any]) -> None:
        """Does the work that a view handed over, and waits for its job if asked to."""
        takes_a_place = work.job_of is not None and not work.briefly
        if takes_a_place and self._waiting >= MOST_WAITING:
            sentence = f"{MOST_WAITING} callers are already waiting for answers; use POST /jobs instead."
            handover.fail(QueueFullError(sentence))
            return
        self._waiting += takes_a_place
        try:
            outcome = await call.done_by(self._writing, work.run)
            live = self._jobs.live(work.job_of(outcome)) if work.job_of is not None else None
            if live is not None:
                call.body.uncount()  # the number of waiting callers is limited anyway
                await call.unless_gone(_until_finished(live, work.wait_seconds))
            handover.succeed(outcome)
        except CallerGoneError:
            raise
        except Exception as error:  # the view raises it again, where the app handles errors
            handover.fail(error)
        finally:
            self._waiting -= takes_a_place


def _takes_long(scope: Scope) -> bool:
    """Whether a call searches the jobs, reads a sweep or renders a report."""
    path = scope["path"]
    is_large = path.startswith("/sweeps/") or (path.startswith("/jobs/") and path.endswith("/report"))
    return scope["method"] != "POST" and (is_large or (path == "/jobs" and bool(scope["query_string"])))


class _Bodies:
    """The memory of bodies that are being read or wait for a thread."""

    def __init__(self) -> None:
        self.counted_bytes = 0


class _Body:
    """The body of one call, counted among all bodies until ``uncount``."""

    def __init__(self, bodies: _Bodies) -> None:
        self.content = bytearray()
        self._bodies, self._counted_bytes = bodies, 0

    def add(self, part: bytes) -> None:
        """Adds a part that has arrived."""
        self.content += part
        self._counted_bytes += len(part)
        self._bodies.counted_bytes += len(part)

    def uncount(self) -> None:
        """Stops counting this body, to make room for others."""
        self._bodies.counted_bytes -= self._counted_bytes
        self._counted_bytes = 0


class _Call:
    """One request, and whether its caller is still connected."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body: _Body) -> None:
        self.scope, self.send, self._receive, self.body = scope, send, receive, body
        self._gone = asyncio.ensure_future(self._until_gone())

    def end(self) -> None:
        """Stops watching for a hang-up, since the call is over."""
        self._gone.cancel()

    async def done_by(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Runs work in a thread and returns its result; drops it if the caller hangs up before it starts."""
        submitted: Future[T] = threads.submit(work)
        result = asyncio.wrap_future(submitted)
        waited: list[asyncio.Future[Any]] = [result, self._gone]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not result.done() and submitted.cancel():
            raise CallerGoneError
        return await result

    async def unless_gone(self, waiting: Awaitable[None]) -> None:
        """Waits until the caller hangs up at the latest."""
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({task, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise CallerGoneError
            await task
        finally:
            task.cancel()

    def hang_up(self) -> None:
        """Ends the connection now, and drops unsent data."""
        self.scope["extensions"]["memorymark"]["abort"]()

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _until_finished(live: LiveJob, seconds: float) -> None:
    """Returns when the job is finished, when its time is up, or when the service shuts down."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(changed.set)

    ends_at = loop.time() + seconds
    with live.listening(wake), suppress(asyncio.TimeoutError):
        while not live.job.is_finished and not live.is_woken:
            await asyncio.wait_for(changed.wait(), ends_at - loop.time())
            changed.clear()


async def _send(send: Send, answer: CompleteResponse) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _send_stream(call: _Call, answer: CompleteResponse, stream: EventStream) -> None:
    headers = [(name, value) for name, value in answer.headers if name != b"content-length"]
    await call.send({"type": "http.response.start", "status": answer.status, "headers": headers})
    async for part in stream:
        message = {"type": "http.response.body", "body": part, "more_body": True}
        try:
            await asyncio.wait_for(call.send(message), SEND_SECONDS)
        except asyncio.TimeoutError:
            call.hang_up()
            return
    await call.send({"type": "http.response.body", "body": b""})
