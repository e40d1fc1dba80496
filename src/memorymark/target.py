"""The device a step runs on, and how much of its memory it may take."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from memorymark.catalog import all_gpus, find_gpu
from memorymark.errors import UsageError
from memorymark.type_checks import settle_types
from memorymark.units import GIB, format_bytes

# The GPU of the published table, for which is predicted where there is none and none is named.
DEFAULT_GPU = "a10"


@dataclass(frozen=True, kw_only=True)
class Target:
    """``device`` is ``auto``, ``cuda``, ``cuda:1``, ``mps`` or ``cpu``; ``memory_cap_bytes`` limits the allocator.

    ``gpu`` names one of the catalog that steps are predicted for; it need not be here.
    """

    device: str = "auto"
    gpu: str | None = None
    memory_cap_bytes: int | None = None

    def __post_init__(self) -> None:
        settle_types(self)
        if self.gpu is not None:
            if self.device != "auto":
                raise UsageError(
                    f"--gpu {self.gpu} asks for a prediction, --device {self.device} for a run here; drop one of them."
                )
            gpu = find_gpu(self.gpu)
            if self.memory_cap_bytes is not None and self.memory_cap_bytes > gpu.torch_memory_bytes:
                raise UsageError(
                    f"--memory-gib asks for {format_bytes(self.memory_cap_bytes)} but {gpu.name} has "
                    f"{format_bytes(gpu.torch_memory_bytes)}; lower it or leave it out."
                )
        if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", self.device):
            raise UsageError(f"unknown device {self.device!r}; use auto, cuda, cuda:N, mps or cpu.")
        if self.memory_cap_bytes is not None and self.memory_cap_bytes <= 0:
            raise UsageError(f"--memory-gib must be a number above 0, not {self.memory_cap_bytes / GIB:g}.")


def memory_cap(gib: float | None) -> int | None:
    """What ``--memory-gib`` says, in bytes."""
    if gib is None:
        return None
    if not 0 < gib * GIB < math.inf:
        raise UsageError(f"--memory-gib must be a number above 0, not {gib:g}.")
    return max(int(gib * GIB), 1)


def default_gpu_target(target: Target) -> Target:
    """The target for a machine without a GPU: the published table's, or any with the memory that was asked for."""
    cap_bytes = target.memory_cap_bytes
    roomy = [gpu for gpu in all_gpus() if cap_bytes is None or gpu.usable_bytes >= cap_bytes]
    if not roomy:
        raise UsageError(f"no GPU of the catalog has the {format_bytes(cap_bytes or 0)} of --memory-gib; lower it.")
    default = find_gpu(DEFAULT_GPU)
    gpu = default if default in roomy else min(roomy, key=lambda gpu: gpu.usable_bytes)
    return replace(target, gpu=gpu.id)
