"""Runs a program through the model of the caching allocator."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memorymark.predict.allocator import Block, CachingAllocator, OutOfMemory
from memorymark.predict.program import Growth, Program

Scratch = Callable[[Growth, int], tuple[int, ...]]


class Memory:
    """The allocator and which storage lies in which of its blocks."""

    def __init__(self, capacity_bytes: int | None) -> None:
        self.allocator = CachingAllocator(capacity_bytes)
        self.blocks: dict[int, Block] = {}

    def hold(self, storages: Iterable[tuple[int, int]]) -> None:
        """Allocates storages that stay."""
        for number, size in storages:
            self._allocate(number, size)

    def run(self, program: Program, batch_size: int, scratch: Scratch) -> list[tuple[str, int]]:
        """One step; gives the peak of allocated bytes by phase."""
        allocator, blocks = self.allocator, self.blocks
        peaks = []
        marks = iter([*program.marks, ("end", len(program.operations) + 1)])
        phase, end = next(marks)
        for index, growth in enumerate(program.operations, 1):
            for number in growth.operation.freed:
                block = blocks.pop(number, None)
                if block is not None:
                    allocator.free(block)
            for number, size in growth.made_at(batch_size):
                self._allocate(number, size)
            for size in scratch(growth, batch_size):
                try:
                    allocator.free(allocator.allocate(size))
                except OutOfMemory:
                    # A convolution that finds no room for its copies takes another algorithm, which needs none.
                    if not growth.operation.name.startswith("aten.convolution"):
                        raise
            if index == end:
                peaks.append((phase, allocator.peak_allocated_bytes))
                phase, end = next(marks)
        return peaks

    def _allocate(self, number: int, size: int) -> None:
        if number in self.blocks:
            self.allocator.free(self.blocks[number])
        if size > 0:
            self.blocks[number] = self.allocator.allocate(size)
