"""The device a step runs on, and how much of its memory it may take."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.errors import UsageError
from memorymark.units import GIB


@dataclass(frozen=True, kw_only=True)
class Target:
    """``device`` is ``auto``, ``cuda``, ``cuda:1``, ``mps`` or ``cpu``; ``memory_cap_bytes`` limits the allocator."""

    device: str = "auto"
    memory_cap_bytes: int | None = None

    def __post_init__(self) -> None:
        kind, _, index = self.device.partition(":")
        if kind not in ("auto", "cuda", "mps", "cpu") or (index and not (kind == "cuda" and index.isdigit())):
            raise UsageError(f"unknown device {self.device!r}; use auto, cuda, cuda:N, mps or cpu.")
        if self.memory_cap_bytes is not None and self.memory_cap_bytes <= 0:
            raise UsageError(f"--memory-gib must be above 0, not {self.memory_cap_bytes / GIB:g}.")
