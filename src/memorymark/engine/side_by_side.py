"""Does several pieces of work at once, each lane with a worker of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import TypeVar

Lane = TypeVar("Lane")
Result = TypeVar("Result")
# Each worker holds torch, transformers and a few traces: a gigabyte.
MOST_LANES = 2


def lanes_here() -> int:
    """Returns how many workers this process should keep busy at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_LANES)


def side_by_side(
    pieces: Sequence[Callable[[Lane], Result]], lanes: Sequence[Lane], stop: Callable[[Lane], None]
) -> list[Result]:
    """Returns the results of all pieces, in their order; each runs in the next free lane.

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
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for lane in lanes:
                stop(lane)
            raise
    return [future.result() for future in futures]
