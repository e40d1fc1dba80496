"""Asks the driver about GPUs without starting CUDA."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GpuState:
    """One GPU as the driver sees it."""

    name: str
    total_bytes: int
    used_bytes: int
    driver_version: str


@dataclass(frozen=True)
class Utilization:
    """``busy`` is the fraction of time in which a kernel ran, ``power`` the fraction of the power limit drawn."""

    busy: float
    power: float | None


def gpus() -> list[GpuState]:
    """Returns the GPUs that CUDA would show, in CUDA's order; empty without a driver."""
    with session() as nvml:
        if nvml is None:
            return []
        try:
            return [_state(nvml, handle) for handle in _visible_handles(nvml)]
        except nvml.NVMLError:  # a MIG slice, or a GPU in a virtual machine, may not tell
            return []


def used_bytes(index: int) -> int | None:
    """Returns the memory in use on the GPU with this CUDA index, by all processes; ``None`` if unknown."""
    states = gpus()
    return states[index].used_bytes if index < len(states) else None


class UtilizationMeter:
    """Samples how busy a GPU is; use as a context manager."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._stack = ExitStack()
        self._nvml: Any = None
        self._handle: Any = None

    def __enter__(self) -> UtilizationMeter:
        self._nvml = self._stack.enter_context(session())
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):
                self._handle = dict(enumerate(_visible_handles(self._nvml))).get(self._index)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def sample(self) -> Utilization | None:
        """Returns the utilization of the last moments; ``None`` if the driver does not tell."""
        if self._handle is None:
            return None
        try:
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100
        except self._nvml.NVMLError:
            return None
        try:
            limit = self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle)
            power = self._nvml.nvmlDeviceGetPowerUsage(self._handle) / limit
        except (self._nvml.NVMLError, ZeroDivisionError):
            power = None
        return Utilization(busy, power)


@contextmanager
def session() -> Iterator[Any]:
    """Opens NVIDIA's library; gives ``None`` where the driver cannot be asked."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver or no permission: the driver cannot be asked
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _visible_handles(nvml: Any) -> list[Any]:
    handles = _in_cudas_order(nvml)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return handles
    chosen = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        try:
            chosen.append(_named(nvml, name, handles))
        except (nvml.NVMLError, IndexError):
            break  # CUDA ignores everything from the first device it does not know
    return chosen


def _in_cudas_order(nvml: Any) -> list[Any]:
    """Returns the GPUs by bus position if the environment asks for that, else the fastest first."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    if os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return handles

    def speed(handle: Any) -> int:
        clock: int = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        return clock * int(nvml.nvmlDeviceGetNumGpuCores(handle))

    try:
        return sorted(handles, key=speed, reverse=True)
    except (nvml.NVMLError, AttributeError):  # an old driver, or a MIG slice, may not tell
        return handles


def _named(nvml: Any, name: str, handles: list[Any]) -> Any:
    """Finds a GPU by its number or the start of its UUID, or a MIG slice by its whole UUID."""
    if name.isdigit():
        return handles[int(name)]
    begins = [handle for handle in handles if nvml.nvmlDeviceGetUUID(handle).startswith(name)]
    return begins[0] if len(begins) == 1 else nvml.nvmlDeviceGetHandleByUUID(name)


def _state(nvml: Any, handle: Any) -> GpuState:
    try:
        # Version 2 separates what the driver reserves for itself from what processes use.
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    name, driver = nvml.nvmlDeviceGetName(handle), nvml.nvmlSystemGetDriverVersion()
    return GpuState(name, int(memory.total), int(memory.used), driver)
