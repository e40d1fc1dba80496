"""What the driver says of a GPU, asked without starting CUDA."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GpuState:
    """One GPU as the driver sees it."""

    name: str
    total_bytes: int
    used_bytes: int
    driver_version: str


def gpus() -> list[GpuState]:
    """The GPUs that CUDA would show, in CUDA's order; none where there is no driver."""
    with _session() as nvml:
        return [] if nvml is None else [_state(nvml, handle) for handle in _visible_handles(nvml)]


def used_bytes(index: int) -> int | None:
    """What the GPU with this CUDA index holds now, for all processes; ``None`` if the driver does not say."""
    states = gpus()
    return states[index].used_bytes if index < len(states) else None


@contextmanager
def _session() -> Iterator[Any]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no permission: all mean that nobody can be asked
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _visible_handles(nvml: Any) -> list[Any]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    handles = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        try:
            by_index = name.isdigit()
            handles.append(
                nvml.nvmlDeviceGetHandleByIndex(int(name)) if by_index else nvml.nvmlDeviceGetHandleByUUID(name)
            )
        except nvml.NVMLError:
            break  # CUDA ignores everything from the first device it does not know
    return handles


def _state(nvml: Any, handle: Any) -> GpuState:
    try:
        # Version 2 keeps what the driver reserves for itself apart from what processes use.
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    name, driver = nvml.nvmlDeviceGetName(handle), nvml.nvmlSystemGetDriverVersion()
    return GpuState(name, int(memory.total), int(memory.used), driver)
