"""Where the CUDA driver puts new segments, which decides which of several free blocks of one size is taken.

As seen in the histories of tests/data, addresses are used in chunks of 32 MiB. A segment goes into the free part of the
chunks in use, as low as possible; if it does not fit there, it gets new chunks, as high as possible. So at first each
large segment lies below the one before it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import chain

from memorymark.units import MIB

CHUNK_BYTES = 32 * MIB
END = 2**47  # where the addresses of a process end


class AddressSpace:
    """The addresses that segments have taken."""

    def __init__(self) -> None:
        self._segments: list[tuple[int, int]] = []
        self._top = 0
        # No gap in a chunk or between chunks is larger than this, so most searches can be skipped.
        self._most_in_chunks = self._most_between = 0

    def take(self, size: int) -> int:
        """Returns the address of a new segment."""
        address = self._room(size)
        self._add(address, address + size)
        return address

    def found(self, address: int, size: int) -> None:
        """Adds an existing segment, perhaps with gaps between it and others."""
        self._add(address, address + size)
        self._most_in_chunks = self._most_between = END

    def give_back(self, address: int) -> None:
        """Removes a segment."""
        del self._segments[bisect_left(self._segments, (address,))]
        self._most_in_chunks = self._most_between = END

    def _add(self, address: int, end: int) -> None:
        insort(self._segments, (address, end))
        self._top = max(self._top, _ceil(end))
        self._most_in_chunks = max(self._most_in_chunks, _ceil(end) - end)

    def _room(self, size: int) -> int:
        length = _ceil(size)
        if not self._segments:
            return END - length
        if size <= self._most_in_chunks or length <= self._most_between:
            address = self._look_through(size, length)
            if address is not None:
                return address
        bottom = _floor(self._segments[0][0])
        return bottom - length if bottom >= length else self._top

    def _look_through(self, size: int, length: int) -> int | None:
        """Searches the chunks in use, then the gaps between them."""
        # Each replay of a step runs this hundreds of times: no calls in the loop.
        between, most_in_chunks, most_between = None, 0, 0
        used = chunks = self._segments[0][0] & -CHUNK_BYTES
        for address, end in chain(self._segments, ((self._top, self._top),)):
            left = (chunks if chunks < address else address) - used
            if left >= size:
                return used
            if left > most_in_chunks:
                most_in_chunks = left
            start = address & -CHUNK_BYTES
            if start >= chunks:
                if address - start >= size:
                    return start
                if address - start > most_in_chunks:
                    most_in_chunks = address - start
                if start - chunks >= length:
                    between = start - length
                if start - chunks > most_between:
                    most_between = start - chunks
            used, chunks = end, (end + CHUNK_BYTES - 1) & -CHUNK_BYTES
        self._most_in_chunks, self._most_between = most_in_chunks, most_between
        return between


def _ceil(address: int) -> int:
    return (address + CHUNK_BYTES - 1) & -CHUNK_BYTES


def _floor(address: int) -> int:
    return address & -CHUNK_BYTES
