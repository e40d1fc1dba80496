"""A model of torch's caching allocator for CUDA, in its default configuration.

Given the requests and frees of a training step, it reaches the same peaks as the real one, to the byte, and raises
``OutOfMemory`` if the step exceeds a given capacity. The rules are those of
c10/cuda/CUDACachingAllocator: sizes are rounded up to 512 bytes; small and large requests have separate pools;
the best-fitting free block is taken and split; free neighbours merge; segments stay cached until they are needed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable

from memorymark.devices.segments import Segment
from memorymark.prediction.memory.address_space import AddressSpace
from memorymark.units import MIB

ROUND_BYTES = 512
SMALL_REQUEST_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB
MEDIUM_SEGMENT_BYTES = 20 * MIB
OWN_SEGMENT_FROM_BYTES = 10 * MIB
SEGMENT_ROUND_BYTES = 2 * MIB


class OutOfMemory(Exception):  # noqa: N818 - the name every allocator gives it
    """The capacity is too small for a request, even with every unused segment freed."""

    def __init__(self, requested_bytes: int, free_bytes: int) -> None:
        super().__init__(f"{requested_bytes} bytes asked for, {free_bytes} free")
        self.requested_bytes, self.free_bytes = requested_bytes, free_bytes


class Block:
    """A part of a segment, in use or free, between its neighbours."""

    __slots__ = ("address", "after", "before", "free", "size", "small", "stream")

    def __init__(self, address: int, size: int, *, small: bool, stream: int = 0) -> None:
        self.address, self.size, self.small, self.free = address, size, small, False
        self.stream = stream
        self.before: Block | None = None
        self.after: Block | None = None


def segment_bytes(size: int) -> int:
    """Returns the size of the segment that the allocator requests if no free block holds ``size`` bytes."""
    if size <= SMALL_REQUEST_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < OWN_SEGMENT_FROM_BYTES:
        return MEDIUM_SEGMENT_BYTES
    return -(-size // SEGMENT_ROUND_BYTES) * SEGMENT_ROUND_BYTES


Pool = list[tuple[int, int, Block]]
"""Free blocks by size, then address."""


class CachingAllocator:
    """The allocator's state: what is allocated, what is reserved, and their peaks.

    ``segment_addresses`` says where the driver put each new segment, if that is known. It matters when several free
    blocks have the same size: the allocator takes the one with the lowest address.
    """

    def __init__(self, capacity_bytes: int | None = None, segment_addresses: Iterable[int] = ()) -> None:
        self.capacity_bytes = capacity_bytes
        self._segment_addresses = iter(segment_addresses)
        self.allocated_bytes = self.reserved_bytes = 0
        self.peak_allocated_bytes = self.peak_reserved_bytes = 0
        self.retries = 0
        self._pools: defaultdict[tuple[int, bool], Pool] = defaultdict(list)
        self._first_blocks: dict[int, Block] = {}
        self._space = AddressSpace()

    def allocate(self, requested_bytes: int, stream: int = 0) -> Block:
        """Returns a block that was last used on this stream, or a new one; raises ``OutOfMemory``."""
        size = -(-requested_bytes // ROUND_BYTES) * ROUND_BYTES or ROUND_BYTES
        small = size <= SMALL_REQUEST_BYTES
        pool = self._pools[stream, small]
        at = bisect_left(pool, (size,))
        block = pool.pop(at)[2] if at < len(pool) else self._new_segment(size, stream)
        block.free = False
        rest = block.size - size
        if rest >= ROUND_BYTES if small else rest > SMALL_REQUEST_BYTES:
            self._split(block, size, pool)
        self.allocated_bytes += block.size
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes = self.allocated_bytes
        return block

    def free(self, block: Block) -> None:
        """Takes a block back and joins it with its free neighbours."""
        self.allocated_bytes -= block.size
        self._join(block)

    def _join(self, block: Block) -> None:
        """Adds a block to the free ones, merged with its free neighbours."""
        pool = self._pools[block.stream, block.small]
        block.free = True
        before, after = block.before, block.after
        if before is not None and before.free:
            del pool[bisect_left(pool, (before.size, before.address))]
            block.address, block.size = before.address, block.size + before.size
            block.before = before.before
            if block.before is not None:
                block.before.after = block
            else:
                self._first_blocks[block.address] = block
        if after is not None and after.free:
            del pool[bisect_left(pool, (after.size, after.address))]
            block.size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
        insort(pool, (block.size, block.address, block))

    def empty_cache(self) -> None:
        """Frees every unused segment."""
        for pool in self._pools.values():
            kept = [entry for entry in pool if entry[2].before is not None or entry[2].after is not None]
            self.reserved_bytes -= sum(entry[0] for entry in pool) - sum(entry[0] for entry in kept)
            for _, address, block in pool:
                if block.before is None and block.after is None:
                    del self._first_blocks[address]
                    self._space.give_back(address)
            pool[:] = kept

    def reset_peaks(self) -> None:
        """Resets the peaks to what is held now."""
        self.peak_allocated_bytes, self.peak_reserved_bytes = self.allocated_bytes, self.reserved_bytes

    def layout(self) -> list[Segment]:
        """Returns all segments; ``add_segment`` puts them into another allocator."""
        segments = []
        for address, first in self._first_blocks.items():
            blocks, block = [], first
            while True:
                blocks.append((block.size, not block.free))
                if block.after is None:
                    break
                block = block.after
            segments.append(Segment(address, first.small, tuple(blocks), first.stream))
        return segments

    def add_segment(self, segment: Segment) -> None:
        """Adds a segment of a snapshot."""
        before, address = None, segment.address
        for size, in_use in segment.blocks:
            block = Block(address, size, small=segment.small, stream=segment.stream)
            block.free, block.before = not in_use, before
            if before is not None:
                before.after = block
            else:
                self._first_blocks[address] = block
            before, address = block, address + size
            self.reserved_bytes += size
            if in_use:
                self.allocated_bytes += size
            else:
                insort(self._pool(small=segment.small, stream=segment.stream), (size, block.address, block))
        self._space.found(segment.address, address - segment.address)
        self.reset_peaks()

    def _pool(self, *, small: bool, stream: int = 0) -> Pool:
        """Returns the free blocks of a stream; those of another are never taken."""
        return self._pools[stream, small]

    def _new_segment(self, size: int, stream: int) -> Block:
        small = size <= SMALL_REQUEST_BYTES
        size = segment_bytes(size)
        if self.capacity_bytes is not None and self.reserved_bytes + size > self.capacity_bytes:
            self.empty_cache()
            self.retries += 1
            if self.reserved_bytes + size > self.capacity_bytes:
                raise OutOfMemory(size, self.capacity_bytes - self.reserved_bytes)
        self.reserved_bytes += size
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        address = next(self._segment_addresses, None)
        if address is None:
            address = self._space.take(size)
        else:
            self._space.found(address, size)
        block = self._first_blocks[address] = Block(address, size, small=small, stream=stream)
        return block

    def _split(self, block: Block, size: int, pool: Pool) -> None:
        rest = Block(block.address + size, block.size - size, small=block.small, stream=block.stream)
        rest.free = True
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after, block.size = rest, size
        insort(pool, (rest.size, rest.address, rest))
