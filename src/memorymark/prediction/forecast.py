"""Replays two recorded steps at batch sizes that were not run, to say which is the largest that fits.

A training step asks for the same blocks in the same order at every batch size, only larger ones. Two recordings give
each request's size as ``base + slope x batch``; the allocator's model then runs the step at any size, from the real
layout of weights and optimizer state. Scratch space, which is given back at once, may come and go with the kernels
that are chosen: where it differs, the larger recording's is scaled. Where more than that differs, as between very
small and larger batches, there is no forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memorymark.prediction.allocator import Block, CachingAllocator, OutOfMemory, Segment
from memorymark.search import largest_that
from memorymark.trace import Trace

STEPS = 2
MAX_BATCH = 2**24


@dataclass(frozen=True)
class Recording:
    """One step at one batch size."""

    batch_size: int
    trace: Trace


@dataclass(frozen=True)
class _Request:
    """A block that is asked for; its size grows with the batch. ``brief`` ones are given back at once."""

    base: float
    slope: float
    brief: bool = False

    def bytes_at(self, batch_size: int) -> int:
        return max(round(self.base + self.slope * batch_size), 1)


@dataclass(frozen=True)
class _Outline:
    """A step's shape without its sizes: requests by number, frees as ``-1 - number``, scratch space by position."""

    order: list[int]
    sizes: list[int]
    scratch: dict[int, list[int]]


def forecast_maximum(
    smaller: Recording, larger: Recording, segments: Sequence[Segment], capacity_bytes: int
) -> int | None:
    """The largest batch whose steps fit, by the model; ``None`` if the two steps are not of the same shape."""
    script = _script(smaller, larger)
    if script is None:
        return None
    return largest_that(
        lambda batch_size: _fits(script, batch_size, segments, capacity_bytes), larger.batch_size, MAX_BATCH
    )


def _fits(script: list[_Request | int], batch_size: int, segments: Sequence[Segment], capacity_bytes: int) -> bool:
    allocator = CachingAllocator(capacity_bytes)
    for segment in segments:
        allocator.add_segment(segment)
    try:
        for _ in range(STEPS):
            _run(script, batch_size, allocator)
    except OutOfMemory:
        return False
    return True


def _run(script: list[_Request | int], batch_size: int, allocator: CachingAllocator) -> None:
    blocks: list[Block] = []
    for action in script:
        if isinstance(action, int):
            allocator.free(blocks[action])
        elif action.brief:
            allocator.free(allocator.allocate(action.bytes_at(batch_size)))
        else:
            blocks.append(allocator.allocate(action.bytes_at(batch_size)))


def _script(smaller: Recording, larger: Recording) -> list[_Request | int] | None:
    """The step as actions: requests in order, and the numbers of those that are freed."""
    few, many = _outline(smaller.trace), _outline(larger.trace)
    if few.order != many.order or smaller.batch_size >= larger.batch_size:
        return None

    def request(size: int, size_before: int, *, brief: bool = False) -> _Request:
        slope = (size - size_before) / (larger.batch_size - smaller.batch_size)
        return _Request(size - slope * larger.batch_size, slope, brief)

    script: list[_Request | int] = []
    for position in range(len(many.order) + 1):
        before, now = few.scratch.get(position, []), many.scratch.get(position, [])
        if len(before) == len(now):
            script += [request(size, size_before, brief=True) for size, size_before in zip(now, before, strict=True)]
        else:
            script += [_Request(0.0, size / larger.batch_size, brief=True) for size in now]
        if position < len(many.order):
            number = many.order[position]
            script.append(request(many.sizes[number], few.sizes[number]) if number >= 0 else -1 - number)
    return script


def _outline(trace: Trace) -> _Outline:
    outline = _Outline([], [], {})
    numbers: dict[object, int] = {}
    events = trace.events
    index = 0
    while index < len(events):
        key, size = events[index]
        given_back_at_once = size > 0 and index + 1 < len(events) and events[index + 1] == (key, -size)
        if given_back_at_once:
            outline.scratch.setdefault(len(outline.order), []).append(size)
        elif size > 0:
            numbers[key] = len(outline.sizes)
            outline.order.append(len(outline.sizes))
            outline.sizes.append(size)
        elif key in numbers:
            outline.order.append(-1 - numbers.pop(key))
        index += 2 if given_back_at_once else 1
    return outline
