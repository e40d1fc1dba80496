"""Chooses the model of the allocator by its setting."""

from __future__ import annotations

from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.prediction.memory.allocator import CachingAllocator
from memorymark.prediction.memory.expandable import ExpandableAllocator


def allocator_for(kind: AllocatorKind, capacity_bytes: int | None = None, *, capped: bool = False) -> CachingAllocator:
    """Returns an empty allocator that can hold ``capacity_bytes``; ``None`` means no limit.

    ``capped`` says that the limit is torch's, not the driver's; it matters only for expandable segments.
    """
    if kind == "expandable":
        return ExpandableAllocator(capacity_bytes, capped=capped)
    return CachingAllocator(capacity_bytes)
