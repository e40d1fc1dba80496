"""The devices a step can run on: CUDA, Apple's MPS, and the CPU with its tensor bytes counted."""

from __future__ import annotations

from memorymark.devices.base import Device, MemoryReading
from memorymark.devices.resolve import device_here
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.target import Target
from memorymark.suggestions import Proposal, without
from memorymark.units import GIB, format_bytes

__all__ = ["Device", "MemoryReading", "accelerator_kind", "open_device"]

ON_CPU = Proposal("on the CPU", {"device": "cpu"})


def accelerator_kind() -> str | None:
    """Returns ``cuda`` or ``mps`` if torch can use a GPU of this machine, else ``None``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None


def open_device(target: Target) -> Device:
    """Opens the device that a target names and applies its cap; ``auto`` takes the first of CUDA, MPS and CPU."""
    kind, index = device_here(target, accelerator_kind())
    device: Device
    if kind == "cuda":
        from memorymark.devices.cuda import CudaDevice

        _require_cuda(index)
        device = CudaDevice(index)
    elif kind == "mps":
        from memorymark.devices.tracked import MpsDevice

        _require_mps()
        device = MpsDevice()
    else:
        from memorymark.devices.tracked import CpuDevice

        device = CpuDevice()
    if target.memory_cap_bytes is not None:
        _require_memory(device, target.memory_cap_bytes)
        device.cap(target.memory_cap_bytes)
    return device


def _require_memory(device: Device, cap_bytes: int) -> None:
    if cap_bytes > device.total_bytes:
        raise UsageError(
            Message(
                "{memory_gib} asks for {asked}, but {name} has {total}; lower it or leave it out.",
                asked=format_bytes(cap_bytes),
                name=device.name,
                total=format_bytes(device.total_bytes),
            ),
            code="out_of_range",
            field="memory_gib",
            given=cap_bytes / GIB,
            allowed={"above": 0, "maximum": device.total_bytes / GIB},
            proposals=[without("memory_gib")],
        )


def _require_mps() -> None:
    import torch

    if not torch.backends.mps.is_available():
        raise UsageError(
            Message("there is no MPS device here; use {device:cpu}, or leave {device} out."),
            code="no_device",
            field="device",
            given="mps",
            proposals=[ON_CPU],
        )


def _require_cuda(index: int) -> None:
    import torch

    if not torch.cuda.is_available():
        build = "this torch is a CPU build" if torch.version.cuda is None else "the driver shows no GPU"
        raise UsageError(
            Message(
                "there is no CUDA device here ({build}); run `memorymark doctor`, or use {device:cpu}.", build=build
            ),
            code="no_device",
            field="device",
            given=f"cuda:{index}",
            proposals=[ON_CPU],
        )
    if index >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise UsageError(
            Message(
                "there is no cuda:{index} here, the last is cuda:{last}; see `memorymark doctor`.",
                index=index,
                last=last,
            ),
            code="no_device",
            field="device",
            given=f"cuda:{index}",
            allowed=[f"cuda:{one}" for one in range(last + 1)],
            proposals=[Proposal(f"cuda:{last}", {"device": f"cuda:{last}"})],
        )
