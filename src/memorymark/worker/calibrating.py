"""What a worker does to calibrate: it times cases, copies and the host on a CUDA device."""

from __future__ import annotations

import time
from typing import Any

from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.devices.base import Device
from memorymark.devices.machine import describe_machine
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.target import Target


class Calibrating:
    """The device that is calibrated."""

    def __init__(self, device: str) -> None:
        self._device: Device = open_device(Target(device=device))
        entry = match_gpu(self._device.name)
        if entry is None:
            raise UsageError(
                Message(
                    "the {gpu_here} is not in the catalog, so nothing can be predicted for it; {list.gpus} lists those "
                    "that are.",
                    gpu_here=self._device.name,
                ),
                code="unknown_gpu",
                field="device",
                given=device,
            )
        self._gpu = entry

    def facts(self) -> dict[str, str]:
        """Returns what is calibrated, and with what."""
        import torch

        return {
            "gpu_id": self._gpu.id,
            "gpu_name": self._device.name,
            "driver": describe_machine()["driver"] or "",
            "torch": torch.__version__,
            "cuda": torch.version.cuda or "none",
        }

    def host(self) -> dict[str, Any]:
        """Times the host's part of a step, and copies."""
        from memorymark.calibration.host_step import time_host_step
        from memorymark.calibration.timing import time_copies

        step = time_host_step(self._device, self._gpu.capability)
        to_device, to_host = time_copies(self._device)
        return {
            "host": step.to_dict() if step is not None else None,
            "to_device_bytes_per_second": to_device,
            "to_host_bytes_per_second": to_host,
        }

    def cases(self, cases: list[dict[str, Any]], seconds: float) -> list[dict[str, Any] | None]:
        """Times cases for at most so many seconds; ``None`` stands for one that this device cannot run."""
        from memorymark.calibration.timing import timed

        found = timed(cases, self._device, self._gpu.capability, time.monotonic() + seconds)
        return [None if one is None else one.to_dict() for one in found]
