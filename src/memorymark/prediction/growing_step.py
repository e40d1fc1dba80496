"""A training step for every batch size, from two that were recorded.

A step asks for much the same blocks in the same order at every batch size, only larger ones. So each request of the
larger step is looked up in the smaller one, which gives its size as ``base + slope x batch``. What only the larger step
asks for, as sorting the indices of an embedding, is taken to grow in proportion; where that is much, the two steps are
not of one shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf

from memorymark.prediction.allocator import ROUND_BYTES
from memorymark.trace import Trace
from memorymark.units import KIB

# Of all bytes that the larger step asks for, so many may have no counterpart in the smaller one.
UNMATCHED_FRACTION = 0.02
# Two steps are in line again where so many requests in a row match, and so many are looked through for that.
IN_LINE, LOOKED_THROUGH = 5, 60
# How many requests to skip in the larger and in the smaller step to get there, few first.
_SKIPS = sorted(product(range(LOOKED_THROUGH), repeat=2), key=sum)
# The locks of a reduction are a word for each of its columns of blocks: 4,000 bytes at most in what was recorded.
MOST_LOCK_BYTES = 64 * KIB


@dataclass(frozen=True)
class Recording:
    """One step at one batch size.

    Where it ``convolves``, scratch space may be cuDNN's, which can do without. ``scratch_limit_bytes`` is what that of
    a reduction cannot exceed, if it is known.
    """

    batch_size: int
    trace: Trace
    convolves: bool = False
    scratch_limit_bytes: int | None = None


@dataclass(frozen=True)
class Request:
    """A block that is asked for; its size grows with the batch, up to ``most``.

    A ``brief`` one is given back at once. Where there is no room for an ``optional`` one, it is done without.
    """

    base: float
    slope: float
    brief: bool = False
    optional: bool = False
    most: float = inf

    def bytes_at(self, batch_size: int) -> int:
        """Its size at a batch size."""
        return round(min(max(self.base + self.slope * batch_size, 1), self.most))


Action = Request | int
"""A request, or the number of the one to free, among those that are not brief."""
Place = tuple[int, int]
"""Where scratch space is taken: after so many requests, and so many frees since the last of them."""


@dataclass
class _Outline:
    """A step without its scratch space: requests by number, frees as ``-1 - number``. Apart from it, scratch space.

    ``sums`` are the partial sums of a reduction, which takes locks with them; their number grows with the batch until
    they keep the whole GPU busy, and no further.
    """

    order: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    scratch: dict[Place, list[int]] = field(default_factory=dict)
    sums: dict[Place, list[int]] = field(default_factory=dict)


def growing_step(smaller: Recording, larger: Recording) -> list[Action] | None:
    """The actions of the larger step at any batch size; ``None`` if the two steps are not of one shape."""
    if smaller.batch_size >= larger.batch_size:
        return None
    few, many = _outline(smaller.trace), _outline(larger.trace)
    numbers = _counterparts(few.sizes, many.sizes, larger.batch_size / smaller.batch_size)
    unmatched_bytes = sum(size for number, size in enumerate(many.sizes) if number not in numbers)
    if unmatched_bytes > UNMATCHED_FRACTION * sum(many.sizes):
        return None

    def growing(sizes: list[int], sizes_before: list[int]) -> Iterator[Request]:
        if len(sizes) != len(sizes_before):
            yield from (Request(0.0, size / larger.batch_size) for size in sizes)
            return
        for size, size_before in zip(sizes, sizes_before, strict=True):
            slope = (size - size_before) / (larger.batch_size - smaller.batch_size)
            yield Request(size - slope * larger.batch_size, slope)

    def brief(place: Place) -> Iterator[Request]:
        before = numbers.get(place[0] - 1, -2) if place[0] else -1
        place_before = (before + 1, place[1])
        for request in growing(many.scratch.get(place, []), few.scratch.get(place_before, [])):
            yield replace(request, brief=True, optional=larger.convolves)
        for request in growing(many.sums.get(place, []), few.sums.get(place_before, [])):
            limit = larger.scratch_limit_bytes or inf
            yield replace(request, brief=True, most=max(limit, request.bytes_at(larger.batch_size)))

    actions: list[Action] = []
    requests = frees = 0
    for number in many.order:
        actions += brief((requests, frees))
        if number >= 0:
            before = numbers.get(number)
            actions += growing([many.sizes[number]], [] if before is None else [few.sizes[before]])
            requests, frees = number + 1, 0
        else:
            actions.append(-1 - number)
            frees += 1
    actions += brief((requests, frees))
    return actions


def _counterparts(few: list[int], many: list[int], growth: float) -> dict[int, int]:
    """For the numbers of requests of the larger step, those of the same requests in the smaller one."""

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
            index += 1
    return outline


def _takes_locks(events: Sequence[tuple[Hashable, int]]) -> bool:
    """Whether a request is followed by a little one, and both are given back in reverse."""
    if len(events) < 4:
        return False
    (key, size), (locks, locks_size) = events[:2]
    is_little = 0 < locks_size <= min(size, MOST_LOCK_BYTES)
    return is_little and list(events[2:]) == [(locks, -locks_size), (key, -size)]
