"""Replays two recorded steps at other batch sizes to find the largest that fits.

The allocator's model starts from the real layout of weights and optimizer state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.segments import Segment
from memorymark.largest_batch import MAX_BATCH, largest_that, usable_bytes
from memorymark.prediction.memory.allocator import Block, CachingAllocator, OutOfMemory
from memorymark.prediction.memory.allocator_for import allocator_for
from memorymark.prediction.memory.growing_step import Action, RecordedStep, growing_step

STEPS = 2
# At smaller batches than this, the peak of many models comes from gradients, which do not grow.
GROWING_FROM = 16
# The relative error of a guess from the peaks.
MISSED_FRACTION = 0.008


def forecast_maximum(
    smaller: RecordedStep,
    larger: RecordedStep,
    segments: Sequence[Segment],
    capacity_bytes: int,
    *,
    allocator: AllocatorKind = "default",
    capped: bool = False,
) -> int | None:
    """Returns the largest batch whose steps fit by the model; ``None`` if the two steps do not tell.

    ``allocator`` and ``capped`` as for ``allocator_for``; the segments are those of such an allocator.
    """
    step = growing_step(smaller, larger)
    if step is None:
        return None
    guess = _guess(step, larger.batch_size, segments, capacity_bytes)
    if guess is None:
        return None
    empty = partial(allocator_for, allocator, capacity_bytes, capped=capped)
    return largest_that(
        lambda batch_size: _fits(step, batch_size, segments, empty()),
        guess,
        MAX_BATCH,
        stride=max(round(guess * MISSED_FRACTION), 1),
    )


def _guess(step: list[Action], batch_size: int, segments: Sequence[Segment], capacity_bytes: int) -> int | None:
    """Guesses the batch whose peak, extrapolated linearly, fills the capacity; ``None`` if the peak does not grow."""
    resting_bytes = sum(size for segment in segments for size, in_use in segment.blocks if in_use)
    room_bytes = usable_bytes(capacity_bytes) - resting_bytes
    batch_size = max(batch_size, GROWING_FROM)
    peak, peak_at_double = (_peak_bytes(step, size) for size in (batch_size, 2 * batch_size))
    while peak_at_double <= peak:
        batch_size, peak, peak_at_double = 2 * batch_size, peak_at_double, _peak_bytes(step, 4 * batch_size)
        if batch_size > MAX_BATCH:
            return None
    return min(max(int(batch_size * (1 + (room_bytes - peak) / (peak_at_double - peak))), 1), MAX_BATCH)


def _peak_bytes(step: list[Action], batch_size: int) -> int:
    held, peak = 0, 0
    sizes: list[int] = []
    for action in step:
        if isinstance(action, int):
            held -= sizes[action]
        elif action is not None and not action.optional:
            size = action.bytes_at(batch_size)
            peak = max(peak, held + size)
            if not action.brief:
                held += size
                sizes.append(size)
    return peak


def _fits(step: list[Action], batch_size: int, segments: Sequence[Segment], allocator: CachingAllocator) -> bool:
    for segment in segments:
        allocator.add_segment(segment)
    left: list[Block] = []
    try:
        for _ in range(STEPS):
            left = _run(step, batch_size, allocator, left)
    except OutOfMemory:
        return False
    return True


def _run(step: list[Action], batch_size: int, allocator: CachingAllocator, left: list[Block]) -> list[Block]:
    """Runs one step; takes the blocks that the step before left and returns those that this one leaves."""
    blocks: list[Block] = []
    freed: set[int] = set()
    for action in step:
        if action is None:
            for block in left:
                allocator.free(block)
        elif isinstance(action, int):
            allocator.free(blocks[action])
            freed.add(action)
        elif action.brief:
            try:
                allocator.free(allocator.allocate(action.bytes_at(batch_size)))
            except OutOfMemory:
                if not action.optional:
                    raise
        else:
            blocks.append(allocator.allocate(action.bytes_at(batch_size)))
    return [block for number, block in enumerate(blocks) if number not in freed]
