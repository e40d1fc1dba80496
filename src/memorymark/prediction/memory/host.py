"""Host memory that a step's offloaded tensors take."""

from __future__ import annotations

from collections.abc import Iterable

from memorymark.devices.host_memory import pinned_bytes


class HostMemory:
    """What is on the host now, and at its peak; each storage by its number."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.held_bytes = self.peak_bytes = 0

    def allocate(self, storages: Iterable[tuple[int, int]], *, pinned: bool) -> None:
        """Takes memory for new storages."""
        for number, size in storages:
            self.free(number)
            self.sizes[number] = pinned_bytes(size) if pinned else size
            self.held_bytes += self.sizes[number]
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)

    def free(self, number: int) -> None:
        """Frees a storage, if it is here."""
        self.held_bytes -= self.sizes.pop(number, 0)

    def found(self, sizes: dict[int, int]) -> None:
        """Starts with what earlier steps left."""
        self.sizes = dict(sizes)
        self.held_bytes = self.peak_bytes = sum(sizes.values())
