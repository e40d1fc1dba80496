"""Estimates the largest batch from one recorded step: scales its growing blocks and replays it from scratch.

Most blocks of a step grow with the batch. Blocks that belong to the parameters do not: gradients, casts of weights,
the optimizer's temporaries. Their owners are known, or they are as large as a parameter and no more numerous. The step
is then replayed in the allocator's model like a fresh run at a larger batch: weights first, the optimizer's state
during the first step, and what one step leaves behind still there in the next.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from memorymark.devices.allocations import Phase
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.largest_batch import MAX_BATCH, largest_that
from memorymark.prediction.memory.allocator import Block, CachingAllocator, OutOfMemory
from memorymark.prediction.memory.allocator_for import allocator_for
from memorymark.watch.recording import StepRecording

STEPS = 3
NO_LIMIT = 2**62
MOST_INSIDE = 2


@dataclass(frozen=True)
class Replayed:
    """The peaks of a replay at one batch size, and what the allocator holds between steps."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    resting_bytes: int


class ScaledStep:
    """A recorded step that can be replayed at any batch size; ``allocator`` and ``capped`` as for ``allocator_for``."""

    def __init__(self, recording: StepRecording, *, allocator: AllocatorKind = "default", capped: bool = False) -> None:
        self._allocator, self._capped = allocator, capped
        self.batch_size = recording.batch_size
        self._scratch_limit = recording.scratch_limit_bytes or NO_LIMIT
        self._sizes = [size for _, size in recording.events if size > 0]
        self._grows = _growing(recording)
        self._brief: set[int] = set()
        # Requests by number, frees as ``-1 - number``; at some positions a block of the earlier step is freed.
        self._script: list[int] = []
        self._frees_earlier: set[int] = set()
        self._end_of_backward = 0
        freed_keys = self._write_script(recording)
        lasting = [
            (recording.owners_before.get(k), size) for k, size in recording.before.items() if k not in freed_keys
        ]
        self._weights = [size for owner, size in lasting if owner != "optimizer_state"]
        self._optimizer_state = [size for owner, size in lasting if owner == "optimizer_state"]

    def largest_within(self, capacity_bytes: int) -> int:
        """Returns the largest batch whose steps fit; 0 if none does."""

        def fits(batch_size: int) -> bool:
            try:
                self.replay(batch_size, capacity_bytes)
            except OutOfMemory:
                return False
            return True

        return largest_that(fits, max(self.batch_size, 1), MAX_BATCH)

    def replay(self, batch_size: float, capacity_bytes: int | None = None) -> Replayed:
        """Runs a few steps from scratch; raises ``OutOfMemory``."""
        allocator = allocator_for(self._allocator, capacity_bytes, capped=self._capped)
        for size in self._weights:
            allocator.allocate(size)
        left: dict[int, Block] = {}
        for step in range(STEPS):
            left = self._run(allocator, batch_size / self.batch_size, left, first=step == 0)
        return Replayed(allocator.peak_allocated_bytes, allocator.peak_reserved_bytes, allocator.allocated_bytes)

    def _run(
        self, allocator: CachingAllocator, factor: float, left: dict[int, Block], *, first: bool
    ) -> dict[int, Block]:
        """Runs one step; takes the blocks that the step before left alive and returns those that this one leaves."""
        blocks: dict[int, Block] = {}
        for position, action in enumerate(self._script):
            if first and position == self._end_of_backward:
                self._make_state(allocator)
            if action >= 0:
                blocks[action] = allocator.allocate(self._size_at(action, factor))
                continue
            block = (left if position in self._frees_earlier else blocks).pop(-1 - action, None)
            if block is not None:
                allocator.free(block)
        if first and self._end_of_backward == len(self._script):
            self._make_state(allocator)
        for block in left.values():  # leaked by this step only: a leak in every step would end the script
            allocator.free(block)
        return blocks

    def _make_state(self, allocator: CachingAllocator) -> None:
        for size in self._optimizer_state:
            allocator.allocate(size)

    def _size_at(self, number: int, factor: float) -> int:
        size = self._sizes[number]
        if not self._grows[number]:
            return size
        grown = ceil(size * factor)
        return min(grown, self._scratch_limit) if number in self._brief else grown

    def _write_script(self, recording: StepRecording) -> set[int]:
        """Writes the script and returns the keys of older blocks that the step frees."""
        ends = [end for phase, end in recording.marks if phase == "backward"]
        end_of_backward = ends[-1] if ends else len(recording.events)
        alive: dict[int, int] = {}
        freed_before: list[tuple[int, int]] = []
        freed_keys: set[int] = set()
        number = 0
        for index, (key, size) in enumerate(recording.events):
            if size > 0:
                alive[key] = number
                self._script.append(number)
                if size <= self._scratch_limit and _is_scratch(recording.events, index):
                    self._brief.add(number)
                number += 1
            elif key in alive:
                self._script.append(-1 - alive.pop(key))
            elif key in recording.before and key not in freed_keys:
                freed_keys.add(key)
                freed_before.append((len(self._script), recording.before[key]))
                self._frees_earlier.add(len(self._script))
                self._script.append(-1 - len(self._sizes))  # frees nothing, unless _link finds a counterpart
            if index < end_of_backward:
                self._end_of_backward = len(self._script)
        self._link(freed_before, sorted(alive.values()))
        return freed_keys

    def _link(self, freed_before: list[tuple[int, int]], left: list[int]) -> None:
        """Links each block that the step freed of the step before to one that it leaves: inputs, outputs, loss.

        Blocks of the same size are linked first; if the next batch has another shape, the rest is linked by size.
        """
        by_size: dict[int, deque[int]] = defaultdict(deque)
        for number in left:
            by_size[self._sizes[number]].append(number)
        unlinked = []
        for position, size in freed_before:
            if by_size[size]:
                self._script[position] = -1 - by_size[size].popleft()
            else:
                unlinked.append((size, position))
        rest = sorted((number for numbers in by_size.values() for number in numbers), key=self._sizes.__getitem__)
        for (_, position), number in zip(sorted(unlinked, reverse=True), reversed(rest), strict=False):
            self._script[position] = -1 - number


def _is_scratch(events: list[tuple[int, int]], index: int) -> bool:
    """Tells whether a block is a kernel's scratch space: freed before any other block changes, except nested ones.

    A reduction, for example, takes space for its sums and, within its lifetime, a few bytes for a counter.
    """
    key, inside = events[index][0], set[int]()
    for other, size in events[index + 1 : index + 2 + 2 * MOST_INSIDE]:
        if size > 0:
            inside.add(other)
        elif other in inside:
            inside.remove(other)
        else:
            return other == key and not inside
    return False


def _growing(recording: StepRecording) -> list[bool]:
    """Returns for each request of the step whether its size grows with the batch."""
    fixed = set(recording.owners_made)
    for phase, start, end in _segments(recording):
        requests = [index for index in range(start, end) if recording.events[index][1] > 0]
        if phase == "optimizer":
            fixed.update(requests)
            continue
        expected = _of_parameters(recording, phase)
        expected.subtract(recording.events[index][1] for index in requests if index in recording.owners_made)
        suspects: dict[int, list[int]] = defaultdict(list)
        for index in requests:
            if index not in fixed and expected[recording.events[index][1]] > 0:
                suspects[recording.events[index][1]].append(index)
        for size, indices in suspects.items():
            fixed.update(_chosen(recording, indices, expected[size], longest=phase == "forward"))
    return [index not in fixed for index, (_, size) in enumerate(recording.events) if size > 0]


def _segments(recording: StepRecording) -> Iterator[tuple[Phase | None, int, int]]:
    ends = [0, *(end for _, end in recording.marks), len(recording.events)]
    phases: list[Phase | None] = [*(phase for phase, _ in recording.marks), None]
    for phase, (start, end) in zip(phases, pairwise(ends), strict=True):
        yield phase, start, end


def _of_parameters(recording: StepRecording, phase: Phase | None) -> Counter[int]:
    """Returns how many blocks of each size a phase may request for the parameters, not for the batch."""
    expected: Counter[int] = Counter()
    for elements, count in recording.parameters.items():
        if phase == "backward":
            expected[elements * recording.item_bytes] += count
        if recording.cast_bytes is not None and phase in ("forward", "backward"):
            # In the backward pass both the gradients and, with checkpointing, the weights are cast.
            expected[elements * recording.cast_bytes] += count * (2 if phase == "backward" else 1)
    return expected


def _chosen(recording: StepRecording, indices: list[int], count: int, *, longest: bool) -> list[int]:
    """Chooses which parameter-sized blocks belong to parameters, if there are more of them than parameters.

    Autocast keeps its casts until the end of the forward pass, so there the longest-lived; else some, evenly spread.
    """
    if len(indices) <= count:
        return indices
    if longest:
        ends = {}
        for index in indices:
            key = recording.events[index][0]
            later = range(index + 1, len(recording.events))
            ends[index] = next((at for at in later if recording.events[at][0] == key), len(recording.events))
        return sorted(indices, key=lambda index: index - ends[index])[:count]
    return [indices[(2 * position + 1) * len(indices) // (2 * count)] for position in range(count)]
