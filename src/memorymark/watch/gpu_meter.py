"""Reads the GPU of a training, if it has one, while steps run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from memorymark.watch.observation import DeviceFacts, MemoryFacts
from memorymark.watch.surroundings import describe_host

# The first steps fill caches, choose kernels and make the optimizer's state.
WARM_UP_STEPS = 3
READ_MEMORY_EVERY_SECONDS = 1.0
# Fewer samples of the driver than this are not enough.
ENOUGH_SAMPLES = 5


class GpuMeter:
    """Reads the GPU as often as that costs nothing; without one, ``watch`` is ``None`` and methods do nothing."""

    def __init__(self, open_gpu: Callable[[torch.device], Any]) -> None:
        self.watch: Any = None
        self.device: DeviceFacts | None = None
        self._open_gpu = open_gpu
        self.memory: MemoryFacts | None = None
        self._memory_read_at = 0.0

    def open(self, device: torch.device) -> None:
        """Starts watching the device that the training runs on."""
        if self.watch is None:
            self.watch = self._open_gpu(device)
            self.device = self.watch.facts() if self.watch is not None else describe_host(device)

    @property
    def is_usable(self) -> bool:
        """Whether there is a GPU that may be used now."""
        return self.watch is not None and self.watch.usable()

    @property
    def recording(self) -> bool:
        """Whether a step is being recorded."""
        return self.watch is not None and self.watch.recording

    def wait_begins(self) -> None:
        """Marks that the host has no more work for the GPU."""
        if self.is_usable:
            self.watch.clock.begin()

    def wait_ends(self) -> None:
        """Marks that the host has work for the GPU again."""
        if self.is_usable:
            self.watch.clock.end()

    def updated(self) -> None:
        """An optimizer has ended its step."""
        if self.recording:
            self.watch.mark("optimizer")

    def stepped(self, now: float, seconds: float, steps: int, *, loads: bool) -> None:
        """The step with this number has ended; without a data loader, the wait for data begins here."""
        if not self.is_usable:
            return
        if steps == WARM_UP_STEPS:
            self.watch.clock.reset()
            self.watch.sampler.reset()
        if not loads:
            self.watch.clock.begin()
        self.watch.sampler.stepped(seconds)
        if steps <= WARM_UP_STEPS or now - self._memory_read_at > READ_MEMORY_EVERY_SECONDS:
            self.memory = self.watch.memory(settled=steps >= WARM_UP_STEPS)
            self._memory_read_at = now

    def finish(self) -> None:
        """Reads everything one last time."""
        if self.watch is not None:
            self.watch.sampler.stop()
            self.watch.clock.collect()
            self.memory = self.watch.memory(settled=True)

    def abandon_recording(self) -> None:
        """Discards the current recording."""
        if self.watch is not None:
            self.watch.abandon_recording()

    def let_go(self) -> None:
        """Stops watching the GPU."""
        if self.watch is not None:
            self.watch.sampler.stop()
            self.watch.abandon_recording()

    def facts(self, waits_per_step: int) -> dict[str, Any]:
        """Returns the device's part of an observation; ``waits_per_step`` of the timed waits make up a step."""
        return {
            "device": self.device,
            "memory": self.memory,
            "gpu_idle_seconds": self._idle_seconds(waits_per_step),
            **self._utilization(),
        }

    def _idle_seconds(self, waits_per_step: int) -> float | None:
        if self.watch is None or not self.watch.clock.gaps:
            return None
        idle: float = self.watch.clock.seconds / self.watch.clock.gaps * waits_per_step
        return idle

    def _utilization(self) -> dict[str, float | None]:
        sampler = self.watch.sampler if self.watch is not None else None
        if sampler is None or sampler.samples < ENOUGH_SAMPLES:
            return {"busy": None, "power": None}
        return {"busy": sampler.busy / sampler.samples, "power": sampler.power / sampler.samples or None}


def open_gpu_of(device: torch.device, other_processes_bytes: int = 0) -> Any:
    """Returns a watch for a CUDA GPU; ``None`` for any other device."""
    if device.type != "cuda":
        return None
    from memorymark.watch.gpu import GpuWatch

    return GpuWatch(device, other_processes_bytes)
