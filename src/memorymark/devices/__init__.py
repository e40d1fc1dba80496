"""The devices a step can run on: CUDA, Apple's MPS, and the CPU with its tensor bytes counted."""

from __future__ import annotations

from memorymark.devices.base import Device, MemoryReading
from memorymark.errors import UsageError
from memorymark.target import Target
from memorymark.units import format_bytes

__all__ = ["Device", "MemoryReading", "accelerator_kind", "open_device"]


def accelerator_kind() -> str | None:
    """``cuda`` or ``mps`` where torch can use a GPU of this machine, ``None`` where it cannot."""
    import torch

    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None


def open_device(target: Target) -> Device:
    """The device a target names, its cap in force; ``auto`` takes the first of CUDA, MPS and CPU that is here."""
    import torch

    kind, _, index = target.device.partition(":")
    if kind == "auto":
        kind = accelerator_kind() or "cpu"
    device: Device
    if kind == "cuda":
        from memorymark.devices.cuda import CudaDevice

        _require_cuda(int(index or 0))
        device = CudaDevice(int(index or 0))
    elif kind == "mps":
        from memorymark.devices.tracked import MpsDevice

        if not torch.backends.mps.is_available():
            raise UsageError("there is no MPS device here; use --device cpu, or leave --device out.")
        device = MpsDevice()
    else:
        from memorymark.devices.tracked import CpuDevice

        device = CpuDevice()
    if target.memory_cap_bytes is not None:
        if target.memory_cap_bytes > device.total_bytes:
            raise UsageError(
                f"--memory-gib asks for {format_bytes(target.memory_cap_bytes)} but {device.name} has "
                f"{format_bytes(device.total_bytes)}; lower it or leave it out."
            )
        device.cap(target.memory_cap_bytes)
    return device


def _require_cuda(index: int) -> None:
    import torch

    if not torch.cuda.is_available():
        build = "this torch is a CPU build" if torch.version.cuda is None else "the driver shows no GPU"
        raise UsageError(f"there is no CUDA device here ({build}); run `memorymark doctor`, or use --device cpu.")
    if index >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise UsageError(f"there is no cuda:{index} here, the last is cuda:{last}; see `memorymark doctor`.")
