"""Does several pieces of work at once, each lane with a worker of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from memorymark.events import Event, OnEvent

Lane = TypeVar("Lane")
Result = TypeVar("Result")
# Each worker holds torch, transformers and a few traces: a gigabyte.
MOST_LANES = 2


def lanes_here() -> int:
    """Returns how many workers this process should keep busy at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_LANES)


class Relay:
    """Passes events from any thread on to a listener, in the thread that made this."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event, self._home = on_event, threading.get_ident()
        self._waiting: SimpleQueue[Event | Future[Any]] = SimpleQueue()

    def __call__(self, event: Event) -> None:
        """Passes an event on, or keeps it for ``until_done``."""
        if threading.get_ident() == self._home:
            self._on_event(event)
        else:
            self._waiting.put(event)

    def until_done(self, futures: Sequence[Future[Any]]) -> None:
        """Passes events on until all is done; raises the first error as it happens."""
        for future in futures:
            future.add_done_callback(self._waiting.put)
        left = len(futures)
        while left:
            came = self._waiting.get()
            if isinstance(came, Future):
                came.result()
                left -= 1
            else:
                self._on_event(came)


def side_by_side(
    pieces: Sequence[Callable[[Lane], Result]], lanes: Sequence[Lane], stop: Callable[[Lane], None], relay: Relay
) -> list[Result]:
    """Returns the results of all pieces, in their order; each runs in the next free lane and tells the relay.

    If one fails, or this is interrupted, it stops all lanes and raises.
    """
    if len(lanes) == 1:
        return [piece(lanes[0]) for piece in pieces]
    free: SimpleQueue[Lane] = SimpleQueue()
    for lane in lanes:
        free.put(lane)

    def run(piece: Callable[[Lane], Result]) -> Result:
        lane = free.get()
        try:
            return piece(lane)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(len(lanes)) as pool:
        futures = [pool.submit(run, piece) for piece in pieces]
        try:
            relay.until_done(futures)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for lane in lanes:
                stop(lane)
            raise
    return [future.result() for future in futures]
