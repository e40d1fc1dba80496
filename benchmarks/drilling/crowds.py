"""Many who hang up, send half a request, or ask without a pause; and a stranger who locks the history."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

from drilling.calls import GONE, open_socket, posted
from drilling.judge import Outcome, Promise, percentile
from drilling.lane import busy_lane
from drilling.probe import Call, busy, health_probed
from drilling.questions import new_name, tiny
from drilling.server import Server, running

WAITING_CALLERS, LISTENERS, HALF_REQUESTS, BUSY_CONNECTIONS = 64, 256, 1120, 128
# The promises: how soon others are answered.
MOST_SECONDS_TO_FREE = 2.0
MOST_SECONDS_KNOWN = 1.0
MOST_HEALTH_MS = 50.0
# How long half requests are held, which is longer than a server should wait for the other half.
HALF_SECONDS, LOCK_SECONDS = 30.0, 5.0
GIVE_UP_SECONDS = 20.0


def _seconds_until(condition: Callable[[], bool]) -> float:
    """How long it takes until it is so."""
    start = time.perf_counter()
    while time.perf_counter() - start < GIVE_UP_SECONDS:
        with suppress(*GONE):
            if condition():
                return time.perf_counter() - start
        time.sleep(0.05)
    return float("inf")


def _knows(server: Server) -> bool:
    return server.call("POST", "/analyze", tiny("known"), timeout=GIVE_UP_SECONDS).status == 200


def _streams(server: Server, job_id: str) -> bool:
    """Whether a new listener is told something."""
    with closing(_listener(server, job_id)) as listening:
        listening.settimeout(GIVE_UP_SECONDS)
        said = b""
        while b"event: state" not in said:
            if not (more := listening.recv(4096)) or b" 429 " in more:
                return False
            said += more
    return True


def _listener(server: Server, job_id: str) -> socket.socket:
    return open_socket(server.port, f"GET /jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n")


def _waits(server: Server) -> bool:
    """Whether a new caller may wait for an answer that is not there yet."""
    with closing(open_socket(server.port, posted("/analyze", tiny(new_name())))) as asking:
        asking.settimeout(0.3)
        try:
            return b" 429 " not in asking.recv(4096)
        except TimeoutError:
            return True


def hang_ups() -> Outcome:
    """The drill: callers who wait and listeners, all of whom hang up at once."""
    with busy_lane() as (server, job_id), health_probed(server.port) as probed:
        with ExitStack() as callers:
            for _ in range(WAITING_CALLERS):
                callers.enter_context(closing(open_socket(server.port, posted("/analyze", tiny(new_name())))))
            time.sleep(1.0)
            known_meanwhile = _seconds_until(lambda: _knows(server))
        known_after, waiter_after = _seconds_until(lambda: _knows(server)), _seconds_until(lambda: _waits(server))
        with ExitStack() as listeners:
            for _ in range(LISTENERS):
                listeners.enter_context(closing(_listener(server, job_id)))
            time.sleep(1.0)
        listener_after = _seconds_until(lambda: _streams(server, job_id))
        for job in server.call.document("GET", "/jobs?state=queued&limit=500")["jobs"]:
            server.call("DELETE", f"/jobs/{job['id']}")
    found = {
        "a known answer while they waited": (known_meanwhile, MOST_SECONDS_KNOWN),
        "a known answer after": (known_after, MOST_SECONDS_KNOWN),
        "a new waiting caller after": (waiter_after, MOST_SECONDS_TO_FREE),
        "a new listener after": (listener_after, MOST_SECONDS_TO_FREE),
    }
    worst_ms = max(probed.milliseconds, default=float("inf"))
    return Outcome(
        "hang-ups",
        f"{WAITING_CALLERS} callers of /analyze, then {LISTENERS} listeners, hang up",
        count=WAITING_CALLERS + LISTENERS,
        statuses=server.call.statuses + probed.statuses,
        milliseconds=probed.milliseconds,
        promises=[
            *(Promise(f"{what}: {seconds:.2f} s", seconds <= most) for what, (seconds, most) in found.items()),
            Promise(f"/health at most {worst_ms:,.0f} ms", worst_ms <= 1e3 * MOST_SECONDS_TO_FREE),
            Promise(f"{probed.unanswered} calls of /health without an answer", probed.unanswered == 0),
        ],
        notes=[f"{what}: {seconds:.2f} s." for what, (seconds, _) in found.items()],
    )


def half_requests() -> Outcome:
    """The drill: connections on which headers or bodies never end."""
    head = "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Never: ends"
    body = (
        'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"a":'
    )
    with busy_lane() as (server, _), ExitStack() as halves:
        began = time.perf_counter()
        opened = []
        for number in range(HALF_REQUESTS):
            with suppress(OSError):
                one = open_socket(server.port, head if number % 2 else body, timeout=5.0)
                opened.append(halves.enter_context(closing(one)))
        opening_seconds = time.perf_counter() - began
        with health_probed(server.port) as probed:
            known = _seconds_until(lambda: _knows(server))
            time.sleep(max(0.0, HALF_SECONDS - known))
        closed = sum(_is_closed(one) for one in opened)
        still_open_seconds = time.perf_counter() - began
    p99 = percentile(probed.milliseconds, 99) if probed.milliseconds else float("inf")
    return Outcome(
        "half requests",
        f"{len(opened):,} headers and bodies that never end",
        count=len(opened),
        statuses=server.call.statuses + probed.statuses,
        milliseconds=probed.milliseconds,
        promises=[
            Promise(f"a known answer meanwhile: {known:.2f} s", known <= MOST_SECONDS_KNOWN),
            Promise(f"/health p99 {p99:,.0f} ms", p99 <= 1e3 * MOST_SECONDS_KNOWN),
            Promise(f"{probed.unanswered} calls of /health without an answer", probed.unanswered == 0),
            Promise(f"{len(opened) - closed:,} still open after {HALF_SECONDS:g} s", closed == len(opened)),
        ],
        notes=[
            f"Opened in {opening_seconds:.1f} s; {closed:,} were closed by the server after {still_open_seconds:.1f} s."
        ],
    )


def _is_closed(half: socket.socket) -> bool:
    half.setblocking(False)
    try:
        return half.recv(1) is not None
    except BlockingIOError:
        return False
    except OSError:
        return True


def busy_connections(seconds: float) -> Outcome:
    """The drill: /health beside connections that never pause."""
    calls: list[Call] = [("GET", "/jobs", None), ("POST", "/analyze", tiny("known")), ("GET", "/models", None)]
    with running() as server:
        server.call.document("POST", "/analyze", tiny("known"))
        with health_probed(server.port) as idle:
            time.sleep(min(seconds, 3.0))
        with busy(server.port, BUSY_CONNECTIONS, calls) as crowd, health_probed(server.port) as probed:
            time.sleep(seconds)
    p99 = percentile(probed.milliseconds, 99) if probed.milliseconds else float("inf")
    rate = len(crowd.milliseconds) / seconds
    crowd_ms = ", ".join(f"{percentile(crowd.milliseconds or [0.0], at):,.0f}" for at in (50, 99))
    alone_ms = ", ".join(f"{percentile(idle.milliseconds or [0.0], at):,.1f}" for at in (50, 99))
    return Outcome(
        "busy connections",
        f"/health beside {BUSY_CONNECTIONS} connections without a pause, {seconds:g} s",
        count=sum(crowd.statuses.values()),
        statuses=crowd.statuses + probed.statuses,
        milliseconds=probed.milliseconds,
        promises=[
            Promise(f"/health p99 {p99:,.1f} ms, not {MOST_HEALTH_MS:g}", p99 < MOST_HEALTH_MS),
            Promise(f"{probed.unanswered} calls of /health without an answer", probed.unanswered == 0),
            Promise(f"{crowd.unanswered} busy calls without an answer", crowd.unanswered == 0),
            Promise(f"busy calls refused: {dict(crowd.statuses)}", set(crowd.statuses) <= {200}),
        ],
        notes=[
            f"{rate:,.0f} busy calls/s, p50 and p99 {crowd_ms} ms. /health alone, before: p50 and p99 {alone_ms} ms, "
            f"{len(idle.milliseconds)} calls; beside them {len(probed.milliseconds)}."
        ],
    )


def _lock(server: Server) -> None:
    with closing(sqlite3.connect(server.database, isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        time.sleep(LOCK_SECONDS)
        stranger.execute("ROLLBACK")


def foreign_lock() -> Outcome:
    """The drill: another program holds the write lock of the history while callers read."""
    reads: list[Call] = [
        ("GET", "/jobs", None),
        ("POST", "/analyze", tiny("known")),
        ("GET", "/models", None),
    ]
    with running() as server:
        job_id = server.call.document("POST", "/analyze", tiny("known"))["job_id"]
        reads.append(("GET", f"/jobs/{job_id}", None))
        slowest: dict[str, float] = {}
        stranger = threading.Thread(target=_lock, args=[server], daemon=True)
        with health_probed(server.port) as probed:
            stranger.start()
            time.sleep(0.2)
            # Somebody asks for something new, which has to be written; the others must not wait for it.
            with closing(open_socket(server.port, posted("/jobs", tiny(new_name())))) as writer:
                while stranger.is_alive():
                    for method, path, body in reads:
                        answer = server.call(method, path, body)
                        what = f"{method} {path.replace(job_id, 'ID')}"
                        slowest[what] = max(slowest.get(what, 0.0), answer.seconds)
                    time.sleep(0.1)
                writer.settimeout(GIVE_UP_SECONDS)
                written = writer.recv(4096).split(b"\r\n", 1)[0].decode()
        after = server.call("POST", "/analyze", tiny(new_name()))
        is_well = server.call.is_well()
    worst_ms = max(probed.milliseconds, default=float("inf"))
    return Outcome(
        "foreign write lock",
        f"another program holds the history's write lock for {LOCK_SECONDS:g} s",
        count=sum(server.call.statuses.values()),
        statuses=server.call.statuses + probed.statuses,
        milliseconds=probed.milliseconds,
        promises=[
            *(Promise(f"{what} took {took:.2f} s", took <= MOST_SECONDS_KNOWN) for what, took in slowest.items()),
            Promise(f"/health at most {worst_ms:,.0f} ms", worst_ms <= 1e3 * MOST_SECONDS_KNOWN),
            Promise(f"the next job: {after.status}", after.status == 200),
            Promise("not healthy afterwards", is_well),
        ],
        notes=[f"A new question asked meanwhile got {written!r}."],
    )
