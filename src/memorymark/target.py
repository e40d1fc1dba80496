"""The device a step runs on, and how much of its memory it may take."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memorymark.errors import UsageError
from memorymark.units import GIB


@dataclass(frozen=True, kw_only=True)
class Target:
    """``device`` is ``auto``, ``cuda``, ``cuda:1``, ``mps`` or ``cpu``; ``memory_cap_bytes`` limits the allocator."""

    device: str = "auto"
    memory_cap_bytes: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", self.device):
            raise UsageError(f"unknown device {self.device!r}; use auto, cuda, cuda:N, mps or cpu.")
        if self.memory_cap_bytes is not None and self.memory_cap_bytes <= 0:
            raise UsageError(f"--memory-gib must be a number above 0, not {self.memory_cap_bytes / GIB:g}.")
