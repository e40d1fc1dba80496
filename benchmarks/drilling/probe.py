"""Processes of their own beside a drill, so that what it does does not slow what they measure."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from drilling.calls import GONE

PAUSE_SECONDS = 0.02
PROBE_TIMEOUT_SECONDS = 30.0
Call = tuple[str, str, object]


@dataclass
class Seen:
    """What a process beside the drill has seen; times in milliseconds."""

    milliseconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0


@contextmanager
def health_probed(port: int) -> Iterator[Seen]:
    """Asks for /health again and again in a process of its own; what it saw is there after the ``with``."""
    with _beside(_probe, port) as seen:
        yield seen


@contextmanager
def busy(port: int, connections: int, calls: list[Call]) -> Iterator[Seen]:
    """Keeps so many connections busy with calls, each as soon as the last is answered."""
    with _beside(_keep_busy, port, connections, calls) as seen:
        yield seen


@contextmanager
def _beside(work: Any, *arguments: object) -> Iterator[Seen]:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there, *arguments), daemon=True)
    process.start()
    seen = Seen()
    here.recv()  # it has begun
    try:
        yield seen
    finally:
        here.send("enough")
        if here.poll(2 * PROBE_TIMEOUT_SECONDS):
            got: Seen = here.recv()
            seen.milliseconds, seen.statuses, seen.unanswered = got.milliseconds, got.statuses, got.unanswered
        process.join(PROBE_TIMEOUT_SECONDS)
        process.kill()


def _probe(pipe: Connection, port: int) -> None:
    seen = Seen()
    pipe.send("begun")
    while not pipe.poll(PAUSE_SECONDS):
        connection = HTTPConnection("127.0.0.1", port, timeout=PROBE_TIMEOUT_SECONDS)
        start = time.perf_counter()
        try:
            connection.request("GET", "/health")
            response = connection.getresponse()
            response.read()
        except ConnectionRefusedError:  # there is no server now
            continue
        except GONE:
            seen.unanswered += 1
            continue
        finally:
            connection.close()
        seen.milliseconds.append(1e3 * (time.perf_counter() - start))
        seen.statuses[response.status] += 1
    pipe.send(seen)


def _keep_busy(pipe: Connection, port: int, connections: int, calls: list[Call]) -> None:
    asyncio.run(_all_busy(pipe, port, connections, [_on_the_wire(*call) for call in calls]))


def _on_the_wire(method: str, path: str, body: object) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    kind = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n".encode() + data


async def _all_busy(pipe: Connection, port: int, connections: int, texts: list[bytes]) -> None:
    seen, enough = Seen(), asyncio.Event()
    tasks = [asyncio.create_task(_one_busy(port, texts, first, seen, enough)) for first in range(connections)]
    pipe.send("begun")
    while not pipe.poll():
        await asyncio.sleep(0.1)
    enough.set()
    _, late = await asyncio.wait(tasks, timeout=PROBE_TIMEOUT_SECONDS)
    for task in late:
        task.cancel()
    seen.unanswered += len(late)
    pipe.send(seen)


async def _one_busy(port: int, texts: list[bytes], first: int, seen: Seen, enough: asyncio.Event) -> None:
    number = first
    while not enough.is_set():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            seen.unanswered += 1
            await asyncio.sleep(0.1)
            continue
        try:
            is_open = True
            while is_open and not enough.is_set():
                number += 1
                start = time.perf_counter()
                writer.write(texts[number % len(texts)])
                status, is_open = await _answer(reader)
                seen.milliseconds.append(1e3 * (time.perf_counter() - start))
                seen.statuses[status] += 1
        except (OSError, asyncio.IncompleteReadError, ValueError):
            seen.unanswered += 1
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """The status of an answer, and whether the connection stays open for another."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    if "content-length" in headers:
        await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readline()).split(b";")[0], 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.read()
        return int(lines[0].split()[1]), False
    return int(lines[0].split()[1]), headers.get("connection") != "close"
