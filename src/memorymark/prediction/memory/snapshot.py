"""Writes down a simulated training as a snapshot of torch's caching allocator, which PyTorch's memory viewer opens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memorymark.devices.allocations import Phase
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.segments import Segment
from memorymark.prediction.memory.allocator import Block, CachingAllocator
from memorymark.prediction.memory.expandable import ExpandableAllocator

Interval = tuple[int, int]
"""The first address, and the one after the last."""
POOL = (0, 0)
# Where the viewer expects the line of a file that allocated.
NO_LINE = 0


class History:
    """What the allocator did, as entries of a snapshot; ``frames`` say who asks for what comes next."""

    def __init__(self, *, expandable: bool) -> None:
        self.entries: list[dict[str, Any]] = []
        self.frames: list[dict[str, Any]] = []
        self.alive: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self._known: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self._grows, self._shrinks = (
            ("segment_map", "segment_unmap") if expandable else ("segment_alloc", "segment_free")
        )
        self._mapped: list[Interval] = []

    def runs(self, operation: str, module: str, phase: str) -> None:
        """Names what allocates from here on: an operation, its module and the phase."""
        key = (operation, module, phase)
        if key not in self._known:
            named = (("operation", operation), ("module", module or "(the model itself)"), ("phase", phase))
            self._known[key] = [{"name": name, "filename": kind, "line": NO_LINE} for kind, name in named if name]
        self.frames = self._known[key]

    def allocated(self, block: Block, requested_bytes: int) -> None:
        """Notes a block; its size is that of the block, so that sums are what the allocator counts."""
        self.alive[block.address] = requested_bytes, self.frames
        self._note("alloc", block.address, block.size, block.stream)

    def freed(self, block: Block) -> None:
        """Notes that a block was given back."""
        self.alive.pop(block.address, None)
        self._note("free_requested", block.address, block.size, block.stream)
        self._note("free_completed", block.address, block.size, block.stream)

    def segments_are(self, segments: Iterable[Segment]) -> None:
        """Notes which memory came from the driver since then, and which went back."""
        now = sorted((one.address, one.address + sum(size for size, _ in one.blocks)) for one in segments)
        for action, more, fewer in ((self._shrinks, self._mapped, now), (self._grows, now, self._mapped)):
            for start, stop in without(more, fewer):
                self._note(action, start, stop - start, 0)
        self._mapped = now

    def _note(self, action: str, address: int, size: int, stream: int) -> None:
        self.entries.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": stream,
                "time_us": len(self.entries),
                "pool_id": POOL,
                "compile_context": "",
                "user_metadata": "",
                "frames": self.frames,
            }
        )


def without(intervals: Iterable[Interval], others: Iterable[Interval]) -> Iterator[Interval]:
    """Yields what of some intervals is in none of the others, which are in order."""
    others = list(others)
    for start, stop in intervals:
        for other_start, other_stop in others:
            if other_stop <= start or other_start >= stop:
                continue
            if other_start > start:
                yield start, other_start
            start = max(start, other_stop)
        if start < stop:
            yield start, stop


class _Recording(CachingAllocator):
    """An allocator that notes what it does."""

    history: History

    def allocate(self, requested_bytes: int, stream: int = 0) -> Block:
        """Allocates and notes it, after the segments that this took."""
        before = self.reserved_bytes, self.retries  # what a retry frees may be as large as what it gets
        block = super().allocate(requested_bytes, stream)
        if before != (self.reserved_bytes, self.retries):
            self.history.segments_are(self.layout())
        self.history.allocated(block, requested_bytes)
        return block

    def empty_cache(self) -> None:
        """Frees every unused segment and notes it, before another takes its addresses."""
        super().empty_cache()
        self.history.segments_are(self.layout())

    def free(self, block: Block) -> None:
        """Frees and notes it."""
        self.history.freed(block)
        super().free(block)


class _RecordingSegments(_Recording, CachingAllocator):
    """The default allocator."""


class _RecordingPages(_Recording, ExpandableAllocator):
    """The one with expandable segments."""


def recording_allocator(
    kind: AllocatorKind, capacity_bytes: int | None, *, capped: bool
) -> tuple[CachingAllocator, History]:
    """Returns an empty allocator, as ``allocator_for`` does, and the history that it writes."""
    allocator: _Recording
    if kind == "expandable":
        allocator = _RecordingPages(capacity_bytes, capped=capped)
    else:
        allocator = _RecordingSegments(capacity_bytes)
    allocator.history = History(expandable=kind == "expandable")
    return allocator, allocator.history


def snapshot_of(history: History, segments: Iterable[Segment], kind: AllocatorKind) -> dict[str, Any]:
    """Returns the snapshot, as ``torch.cuda.memory._snapshot`` does, of one device."""
    return {
        "segments": [_segment(one, history.alive, kind) for one in segments],
        "device_traces": [history.entries],
        "allocator_settings": {"expandable_segments": kind == "expandable"},
        "external_annotations": [],
    }


def phases_of(marks: Iterable[tuple[Phase, int]]) -> Iterator[Phase]:
    """Yields the phases of a step in order, and after the last one none."""
    yield from (phase for phase, _ in marks)
    yield ""


def _segment(
    segment: Segment, alive: Mapping[int, tuple[int, list[dict[str, Any]]]], kind: AllocatorKind
) -> dict[str, Any]:
    blocks, address = [], segment.address
    for size, in_use in segment.blocks:
        requested, frames = alive.get(address, (size, [])) if in_use else (0, [])
        state = "active_allocated" if in_use else "inactive"
        blocks.append({"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames})
        address += size
    used = sum(size for size, in_use in segment.blocks if in_use)
    return {
        "device": 0,
        "address": segment.address,
        "total_size": address - segment.address,
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(block["requested_size"] for block in blocks),
        "stream": segment.stream,
        "segment_type": "small" if segment.small else "large",
        "segment_pool_id": POOL,
        "is_expandable": kind == "expandable",
        "frames": [],
        "blocks": blocks,
    }
