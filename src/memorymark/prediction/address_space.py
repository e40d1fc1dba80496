"""Where the CUDA driver puts new segments, which decides between free blocks of the same size.

As seen in the histories of tests/data: addresses are used in chunks of 32 MiB. A segment goes where one fits into what
is left of the chunks in use, as low as possible; else it gets new chunks, as high as possible. So at first each large
segment lies below the one before it.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from memorymark.units import MIB

CHUNK_BYTES = 32 * MIB
END = 2**47  # of the addresses that a process has


class AddressSpace:
    """The addresses that segments have taken."""

    def __init__(self) -> None:
        self._segments: list[tuple[int, int]] = []
        self._top = 0

    def take(self, size: int) -> int:
        """The address of a new segment."""
        address = self._room(size)
        self.add(address, size)
        return address

    def add(self, address: int, size: int) -> None:
        """A segment is there, wherever its address comes from."""
        insort(self._segments, (address, address + size))
        self._top = max(self._top, _ceil(address + size))

    def give_back(self, address: int) -> None:
        """A segment is gone."""
        del self._segments[bisect_left(self._segments, (address,))]

    def _room(self, size: int) -> int:
        length = _ceil(size)
        new_chunks = self._top  # where there is no room below, above all
        used = chunks = 0  # where the last segment ends, and the last chunk in use
        for address, end in self._segments:
            if min(chunks, address) - used >= size:
                return used
            start = address // CHUNK_BYTES * CHUNK_BYTES
            if start >= chunks:
                if address - start >= size:
                    return start
                if start - chunks >= length:
                    new_chunks = start - length
            used, chunks = end, _ceil(end)
        if chunks - used >= size:
            return used
        top = self._top if self._segments else END
        return top - length if top - chunks >= length else new_chunks


def _ceil(address: int) -> int:
    return -(-address // CHUNK_BYTES) * CHUNK_BYTES
