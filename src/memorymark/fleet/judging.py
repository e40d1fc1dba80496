"""Judges what one GPU did for a job: which findings, and how much of the time each wastes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memorymark.catalog import GpuEntry
from memorymark.fleet.holds import Hold, Window, bursts, mean
from memorymark.fleet.smaller import known_gpu, smaller_gpu
from memorymark.fleet.thresholds import (
    BURSTY,
    HELD_MEMORY,
    IDLE_BUSY,
    IDLE_SHARE,
    TENSOR_BUSY,
    TENSOR_IDLE,
    UNDERUSED_BUSY,
    YOUNG_SECONDS,
)
from memorymark.results.fleet import FindingKind


@dataclass(frozen=True)
class Found:
    """A finding about one GPU; ``wasted_seconds`` is ``None`` where monitoring cannot tell how much is wasted."""

    kind: FindingKind
    wasted_seconds: float | None
    smaller: GpuEntry | None = None


def is_too_young(hold: Hold) -> bool:
    """Whether the job still starts up."""
    return hold.age_seconds is not None and hold.age_seconds < YOUNG_SECONDS


def findings(hold: Hold) -> list[Found]:
    """Returns the findings about one GPU of a job."""
    return [] if is_too_young(hold) else list(_found(hold))


def _found(hold: Hold) -> Iterator[Found]:
    seconds, idle = hold.seconds, hold.idle_seconds
    if hold.busy < IDLE_BUSY:
        yield Found("idle", seconds * (1 - hold.busy))
        return
    if idle >= IDLE_SHARE * seconds:
        yield Found("idle", idle)
        return
    at_work = hold.at_work
    bursty, waited = _is_bursty(hold, at_work), seconds * (1 - hold.busy)
    if bursty:
        yield Found("data_bound", waited)
    smaller = smaller_gpu(hold, at_work)
    if smaller is not None:
        yield Found("oversized", seconds * _saved_by(hold, smaller), smaller)
    busy, tensor = mean(at_work, "busy") or 0.0, mean(at_work, "tensor")
    if busy >= TENSOR_BUSY and tensor is not None and tensor < TENSOR_IDLE:
        yield Found("tensor_idle", None)
    if busy < UNDERUSED_BUSY and not bursty and smaller is None:
        yield Found("underused", waited)


def _is_bursty(hold: Hold, at_work: tuple[Window, ...]) -> bool:
    """Whether the GPU works in bursts and keeps memory between them."""
    busy, spread, total = mean(at_work, "busy"), bursts(at_work), hold.device.total_bytes
    if busy is None or spread is None or busy >= UNDERUSED_BUSY or spread < BURSTY * busy:
        return False
    held = [window.used_bytes for window in at_work if window.used_bytes is not None]
    return not held or total is None or min(held) >= HELD_MEMORY * total


def _saved_by(hold: Hold, smaller: GpuEntry) -> float:
    """Returns the part of the money that the smaller GPU saves, by the catalog's prices."""
    here = known_gpu(hold.device.name, hold.device.total_bytes)
    if here is None or here.price is None or smaller.price is None:
        return 0.0
    return 1 - smaller.price.usd_per_hour / here.price.usd_per_hour
