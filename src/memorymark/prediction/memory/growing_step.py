"""Derives a training step at any batch size from two recorded ones.

A step requests much the same blocks in the same order at every batch size, only larger. So each request of the larger
step is matched with one of the smaller step, which gives its size as ``base + slope x batch``. Requests of the larger
step only, such as for sorting the indices of an embedding, are assumed to grow in proportion; if there are many, the
two steps differ in shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf

from memorymark.devices.allocations import Trace
from memorymark.prediction.memory.allocator import ROUND_BYTES
from memorymark.units import KIB

# The fraction of the larger step's bytes that may have no counterpart in the smaller one.
UNMATCHED_FRACTION = 0.02
# Two steps are aligned again where this many requests in a row match; this many are searched for that.
IN_LINE, LOOKED_THROUGH = 5, 60
# How many requests to skip in the larger and in the smaller step to align them, few first.
_SKIPS = sorted(product(range(LOOKED_THROUGH), repeat=2), key=sum)
# A reduction has one lock word for each column of blocks: at most 4,000 bytes in any recording.
MOST_LOCK_BYTES = 64 * KIB


@dataclass(frozen=True)
class RecordedStep:
    """One step at one batch size.

    If it ``convolves``, scratch space may belong to cuDNN, which can do without. ``scratch_limit_bytes`` is the upper
    limit of a reduction's scratch space, if known.
    """

    batch_size: int
    trace: Trace
    convolves: bool = False
    scratch_limit_bytes: int | None = None


@dataclass(frozen=True)
class BlockRequest:
    """A requested block; its size grows with the batch, up to ``most``.

    A ``brief`` block is freed at once. An ``optional`` one is left out if it does not fit.
    """

    base: float
    slope: float
    brief: bool = False
    optional: bool = False
    most: float = inf

    def bytes_at(self, batch_size: int) -> int:
        """Returns its size at a batch size."""
        return round(min(max(self.base + self.slope * batch_size, 1), self.most))


Action = BlockRequest | int | None
"""A request; the number of one to free, not counting brief ones; or ``None`` to free what the step before left."""
Place = tuple[int, int]
"""Where scratch space is taken: after this many requests, and this many frees since the last of them."""


@dataclass
class _Outline:
    """A step without its scratch space (requests by number, frees as ``-1 - number``), and its scratch space.

    ``None`` stands for the first block that it frees of those that were there before.

    ``sums`` are the partial sums of a reduction, which come with locks; their number grows with the batch until they
    keep the whole GPU busy.
    """

    order: list[int | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    scratch: dict[Place, list[int]] = field(default_factory=dict)
    sums: dict[Place, list[int]] = field(default_factory=dict)


def growing_step(smaller: RecordedStep, larger: RecordedStep) -> list[Action] | None:
    """Returns the actions of the larger step at any batch size; ``None`` if the two steps differ in shape."""
    if smaller.batch_size >= larger.batch_size:
        return None
    few, many = _outline(smaller.trace), _outline(larger.trace)
    numbers = _counterparts(few.sizes, many.sizes, larger.batch_size / smaller.batch_size)
    unmatched_bytes = sum(size for number, size in enumerate(many.sizes) if number not in numbers)
    if unmatched_bytes > UNMATCHED_FRACTION * sum(many.sizes):
        return None
    return _Pair(smaller, larger, few, many, numbers).actions()


@dataclass(frozen=True)
class _Pair:
    """Two recordings of one step; ``numbers`` maps requests of the larger step to those of the smaller."""

    smaller: RecordedStep
    larger: RecordedStep
    few: _Outline
    many: _Outline
    numbers: dict[int, int]

    def actions(self) -> list[Action]:
        actions: list[Action] = []
        requests = frees = 0
        for number in self.many.order:
            actions += self._brief((requests, frees))
            if number is None:
                actions.append(None)
            elif number >= 0:
                before = self.numbers.get(number)
                sizes_before = [] if before is None else [self.few.sizes[before]]
                actions += self._growing([self.many.sizes[number]], sizes_before)
                requests, frees = number + 1, 0
            else:
                actions.append(-1 - number)
                frees += 1
        actions += self._brief((requests, frees))
        return actions

    def _growing(self, sizes: list[int], sizes_before: list[int]) -> Iterator[BlockRequest]:
        """Yields requests on the line through both sizes; a size missing in the smaller step counts as 0."""
        if len(sizes) != len(sizes_before):
            yield from (BlockRequest(0.0, size / self.larger.batch_size) for size in sizes)
            return
        for size, size_before in zip(sizes, sizes_before, strict=True):
            slope = (size - size_before) / (self.larger.batch_size - self.smaller.batch_size)
            yield BlockRequest(size - slope * self.larger.batch_size, slope)

    def _brief(self, place: Place) -> Iterator[BlockRequest]:
        """Yields the brief requests at a place: scratch space and partial sums."""
        before = self.numbers.get(place[0] - 1, -2) if place[0] else -1
        place_before = (before + 1, place[1])
        for request in self._growing(self.many.scratch.get(place, []), self.few.scratch.get(place_before, [])):
            yield replace(request, brief=True, optional=self.larger.convolves)
        for request in self._growing(self.many.sums.get(place, []), self.few.sums.get(place_before, [])):
            limit = self.larger.scratch_limit_bytes or inf
            yield replace(request, brief=True, most=max(limit, request.bytes_at(self.larger.batch_size)))


def _counterparts(few: list[int], many: list[int], growth: float) -> dict[int, int]:
    """Maps request numbers of the larger step to those of the same requests in the smaller one."""

    def match(number: int, before: int) -> bool:
        return few[before] <= many[number] <= growth * few[before] + ROUND_BYTES

    def in_line(number: int, before: int) -> bool:
        left = min(len(many) - number, len(few) - before)
        return left > 0 and all(match(number + step, before + step) for step in range(min(IN_LINE, left)))

    counterparts: dict[int, int] = {}
    number = before = 0
    while number < len(many) and before < len(few):
        if not match(number, before):
            ways = ((skipped + number, skipped_before + before) for skipped, skipped_before in _SKIPS)
            number, before = next((way for way in ways if in_line(*way)), (len(many), len(few)))
            continue
        counterparts[number] = before
        number, before = number + 1, before + 1
    return counterparts


def _outline(trace: Trace) -> _Outline:
    outline = _Outline()
    numbers: dict[Hashable, int] = {}
    events = trace.events
    index = frees = 0
    while index < len(events):
        (key, size), place = events[index], (len(outline.sizes), frees)
        if size > 0 and events[index + 1 : index + 2] == [(key, -size)]:
            outline.scratch.setdefault(place, []).append(size)
            index += 2
        elif size > 0 and _takes_locks(events[index : index + 4]):
            outline.sums.setdefault(place, []).append(size)
            index += 4
        else:
            if size > 0:
                numbers[key] = len(outline.sizes)
                outline.order.append(len(outline.sizes))
                outline.sizes.append(size)
                frees = 0
            elif key in numbers:
                outline.order.append(-1 - numbers.pop(key))
                frees += 1
            elif key in trace.before and None not in outline.order:
                outline.order.append(None)
            index += 1
    return outline


def _takes_locks(events: Sequence[tuple[Hashable, int]]) -> bool:
    """Tells whether a request is followed by a small one, and both are freed in reverse order."""
    if len(events) < 4:
        return False
    (key, size), (locks, locks_size) = events[:2]
    is_little = 0 < locks_size <= min(size, MOST_LOCK_BYTES)
    return is_little and list(events[2:]) == [(locks, -locks_size), (key, -size)]
