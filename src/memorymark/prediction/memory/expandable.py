"""A model of torch's caching allocator with ``expandable_segments:True``.

Instead of a segment for each large request there is one range of addresses for small requests and one for large ones.
Pages back it where memory is needed: of 2 MiB in the first, of 20 MiB in the second. The rules are those of
c10/cuda/CUDACachingAllocator, the same from torch 2.6 to 2.13:

- the best-fitting free block is taken; one beside addresses without pages counts as large as it could grow;
- the rest of a block is always split off;
- if no free block is large enough, pages are added at the lowest address where free blocks and addresses without
  pages together have the room;
- if there are no more pages, all unused ones are freed and the request is tried again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from memorymark.devices.segments import Segment
from memorymark.prediction.memory.allocator import (
    MEDIUM_SEGMENT_BYTES,
    ROUND_BYTES,
    SMALL_REQUEST_BYTES,
    SMALL_SEGMENT_BYTES,
    Block,
    CachingAllocator,
    OutOfMemory,
    Pool,
    segment_bytes,
)

SMALL_PAGE_BYTES, LARGE_PAGE_BYTES = SMALL_SEGMENT_BYTES, MEDIUM_SEGMENT_BYTES
NO_LIMIT = 2**60 * LARGE_PAGE_BYTES


class Gap(Block):
    """Addresses of a range that no page backs. A gap is never ``free``: it cannot be handed out."""

    __slots__ = ()


Gaps = list[tuple[int, Gap]]
"""By address."""


class ExpandableAllocator(CachingAllocator):
    """The allocator's state; ``reserved_bytes`` are those of the pages.

    ``capped`` says that ``capacity_bytes`` is the limit of ``torch.cuda.set_per_process_memory_fraction``. torch checks
    that limit before it adds pages, against what it would reserve without expandable segments: a page may reach beyond
    the limit, and a request may fail that a page would have served. If not ``capped``, the capacity is what the driver
    has.
    """

    def __init__(self, capacity_bytes: int | None = None, *, capped: bool = False) -> None:
        super().__init__(capacity_bytes)
        limit = NO_LIMIT if capacity_bytes is None else capacity_bytes
        self._cap_bytes = limit if capped else NO_LIMIT
        self._driver_bytes = NO_LIMIT if capped else limit
        # A range spans 1 1/8 of the GPU's memory; the CUDA context's part is ignored here.
        self._range_bytes = self._driver_bytes + self._driver_bytes // 8
        self._small_gaps: Gaps = []
        self._large_gaps: Gaps = []

    def allocate(self, requested_bytes: int, stream: int = 0) -> Block:
        """Returns a block; raises ``OutOfMemory``. There is only the usual ``stream``."""
        assert stream == 0  # noqa: S101 - recipes that use others are refused
        size = max(-(-requested_bytes // ROUND_BYTES), 1) * ROUND_BYTES
        pool = self._pool(small=size <= SMALL_REQUEST_BYTES)
        block = _best_fit(pool, size) or self._expanded(size)
        block.free = False
        if block.size > size:
            self._split(block, size, pool)
        self.allocated_bytes += size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def empty_cache(self) -> None:
        """Frees every unused page."""
        for address in list(self._first_blocks):
            for block in [part for part in _from(self._first_blocks[address]) if part.free]:
                self._unmap(block, address)
            first = self._first_blocks[address]
            if isinstance(first, Gap) and first.after is None:
                del self._first_blocks[address]
                self._delist(first)

    def layout(self) -> list[Segment]:
        """Returns the stretches of pages, lowest first; ``add_segment`` puts them into another allocator.

        A range that begins without a page starts with a segment that has no blocks.
        """
        segments = []
        for address in sorted(self._first_blocks):
            stretch: list[Block] = []
            for block in _from(self._first_blocks[address]):
                if isinstance(block, Gap):
                    segments += [Segment(address, block.small, ())] if block.before is None else []
                    continue
                stretch.append(block)
                if block.after is None or isinstance(block.after, Gap):
                    blocks = tuple((part.size, not part.free) for part in stretch)
                    segments.append(Segment(stretch[0].address, block.small, blocks))
                    stretch = []
        return segments

    def add_segment(self, segment: Segment) -> None:
        """Adds a stretch of pages of a snapshot; those of a range must come in order, lowest first.

        torch's snapshots do not show where a range begins. It is assumed to begin with its first page, which holds
        weights: they came first and stay.
        """
        gap = self._gap_at(segment.address, small=segment.small)
        found, address = [], segment.address
        for size, in_use in segment.blocks:
            block = Block(address, size, small=segment.small)
            block.free = not in_use
            found.append(block)
            address += size
            self.reserved_bytes += size
            self.allocated_bytes += size if in_use else 0
        below = _stretch(Gap, gap.address, segment.address, small=gap.small)
        above = _stretch(Gap, address, gap.address + gap.size, small=gap.small)
        self._replace(gap, gap, [*below, *found, *above])
        self.reset_peaks()

    def _expanded(self, size: int) -> Block:
        try:
            return self._expand(size)
        except OutOfMemory:
            self.empty_cache()
            self.retries += 1
        return self._expand(size)

    def _expand(self, size: int) -> Block:
        """Returns a block that is large enough, with pages added to free blocks."""
        usual_bytes = segment_bytes(size)
        if self.reserved_bytes + usual_bytes > self._cap_bytes:
            raise OutOfMemory(usual_bytes, self._cap_bytes - self.reserved_bytes)
        block = self._place(size)
        if isinstance(block, Gap):
            block = self._map(block, min(size, block.size))
        while block.size < size:
            gap = block.after
            assert isinstance(gap, Gap)  # noqa: S101 - there is room, and free blocks are merged
            block = self._map(gap, min(size - block.size, gap.size))
        self._delist(block)
        return block

    def _place(self, size: int) -> Block:
        """Returns the free block or gap with the lowest address where ``size`` bytes fit."""
        small = size <= SMALL_REQUEST_BYTES
        for _, gap in self._gaps(small=small):
            start: Block = gap.before if gap.before is not None and gap.before.free else gap
            room = 0
            for part in _from(start):
                if room >= size or not (part.free or isinstance(part, Gap)):
                    break
                room += part.size
            if room >= size:
                return start
        return self._new_range(max(self._first_blocks, default=0) + 2 * NO_LIMIT, small=small)

    def _new_range(self, address: int, *, small: bool) -> Gap:
        page_bytes = _page_bytes(small=small)
        gap = Gap(address, -(-self._range_bytes // page_bytes) * page_bytes, small=small)
        self._first_blocks[address] = gap
        self._list(gap)
        return gap

    def _gap_at(self, address: int, *, small: bool) -> Gap:
        gaps = self._gaps(small=small)
        at = bisect_right(gaps, address, key=lambda entry: entry[0]) - 1
        if at >= 0 and address < gaps[at][0] + gaps[at][1].size:
            return gaps[at][1]
        return self._new_range(address, small=small)

    def _map(self, gap: Gap, size: int) -> Block:
        """Backs the start of a gap with pages; returns the free block that they become part of."""
        page_bytes = _page_bytes(small=gap.small)
        mapped_bytes = -(-size // page_bytes) * page_bytes
        if self.reserved_bytes + mapped_bytes > self._driver_bytes:
            raise OutOfMemory(mapped_bytes, self._driver_bytes - self.reserved_bytes)
        self.reserved_bytes += mapped_bytes
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        block = Block(gap.address, mapped_bytes, small=gap.small)
        rest = _stretch(Gap, gap.address + mapped_bytes, gap.address + gap.size, small=gap.small)
        self._replace(gap, gap, [block, *rest])
        self._join(block)
        return block

    def _unmap(self, block: Block, range_address: int) -> None:
        """Frees the pages that lie entirely in a free block."""
        page_bytes, small = _page_bytes(small=block.small), block.small
        end = block.address + block.size
        start = block.address + (range_address - block.address) % page_bytes
        stop = end - (end - range_address) % page_bytes
        if start >= stop:
            return
        self.reserved_bytes -= stop - start
        below, above = _stretch(Block, block.address, start, small=small), _stretch(Block, stop, end, small=small)
        for rest in (*below, *above):
            rest.free = True
        first = last = block
        if not below and isinstance(block.before, Gap):
            first, start = block.before, block.before.address
        if not above and isinstance(block.after, Gap):
            last, stop = block.after, block.after.address + block.after.size
        self._replace(first, last, [*below, Gap(start, stop - start, small=small), *above])

    def _replace(self, first: Block, last: Block, parts: Sequence[Block]) -> None:
        """Replaces neighbouring blocks by others."""
        before, after = first.before, last.after
        for old in _from(first, last):
            self._delist(old)
        for part in parts:
            part.before = before
            if before is None:
                self._first_blocks[part.address] = part
            else:
                before.after = part
            before = part
            self._list(part)
        parts[-1].after = after
        if after is not None:
            after.before = parts[-1]

    def _list(self, block: Block) -> None:
        """Adds a gap or a free block to the lists that are searched."""
        if isinstance(block, Gap):
            insort(self._gaps(small=block.small), (block.address, block))
        elif block.free:
            insort(self._pool(small=block.small), (block.size, block.address, block))

    def _delist(self, block: Block) -> None:
        if isinstance(block, Gap):
            gaps = self._gaps(small=block.small)
            del gaps[bisect_left(gaps, (block.address,))]
        elif block.free:
            pool = self._pool(small=block.small)
            del pool[bisect_left(pool, (block.size, block.address))]

    def _gaps(self, *, small: bool) -> Gaps:
        return self._small_gaps if small else self._large_gaps


def _best_fit(pool: Pool, size: int) -> Block | None:
    """Removes the best-fitting free block from the pool and returns it, or ``None``."""
    at = bisect_left(pool, (size,))
    if at == len(pool):
        return None
    while at + 1 < len(pool) and _could_have(pool[at + 1][2]) < _could_have(pool[at][2]):
        at += 1
    return pool.pop(at)[2]


def _could_have(block: Block) -> int:
    """Returns the size that a block has or could grow to."""
    return block.size + (block.after.size if isinstance(block.after, Gap) else 0)


def _page_bytes(*, small: bool) -> int:
    return SMALL_PAGE_BYTES if small else LARGE_PAGE_BYTES


def _stretch(kind: type[Block], start: int, stop: int, *, small: bool) -> list[Block]:
    """Returns a block between two addresses, or nothing if they are equal."""
    return [kind(start, stop - start, small=small)] if start < stop else []


def _from(first: Block, last: Block | None = None) -> Iterator[Block]:
    """Yields the blocks of a range from ``first`` to ``last``, or to its end."""
    part: Block | None = first
    while part is not None:
        yield part
        part = part.after if part is not last else None
