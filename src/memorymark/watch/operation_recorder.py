"""Decides in which step to count operations."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from memorymark.devices.allocations import Phase
from memorymark.watch.modules import parameters_of
from memorymark.watch.observation import DeviceFacts, MemoryFacts, ModelFacts
from memorymark.watch.operation_counter import OperationCounter
from memorymark.watch.operations import StepOperations

# By then the step was recorded whose memory counts: operations that are watched take a little more.
COUNT_AFTER_STEPS = 6
MAX_ATTEMPTS = 3
# Below this fraction of the memory, a little more does no harm.
HEADROOM = 0.85


class OperationRecorder:
    """Counts the operations of one step, so that the step's time can be predicted with another batch or recipe.

    For that step each operation costs the host tens of microseconds more.
    """

    def __init__(self) -> None:
        self.operations: StepOperations | None = None
        self._counter: OperationCounter | None = None
        self._attempts = 0
        self._batch_size = 0

    @property
    def recording(self) -> bool:
        """Whether a step's operations are being counted."""
        return self._counter is not None

    def step_begins(
        self, batch_size: int, steps: int, optimizers: Iterable[torch.optim.Optimizer], *, allowed: bool
    ) -> None:
        """Ends counting, or begins it if that is ``allowed``."""
        if self._counter is not None:
            counter = self._end()
            self.operations = counter.counted(self._batch_size, parameters_of(optimizers)) if counter else None
            return
        if self.operations is not None or not allowed or steps < COUNT_AFTER_STEPS or self._attempts >= MAX_ATTEMPTS:
            return
        self._attempts += 1
        device = next((parameter.device.type for parameter in parameters_of(optimizers)), "cuda")
        counter = OperationCounter(device)
        if counter.start():
            self._counter, self._batch_size = counter, batch_size

    def enters(self, phase: Phase) -> None:
        """A phase of the step begins."""
        if self._counter is not None:
            self._counter.phase = phase

    def abandon(self) -> None:
        """Something else runs, such as an evaluation, or the script is over."""
        self._end()

    def _end(self) -> OperationCounter | None:
        counter, self._counter = self._counter, None
        if counter is not None:
            counter.stop()
        return counter


def may_count(device: DeviceFacts | None, memory: MemoryFacts | None, model: ModelFacts | None) -> bool:
    """Tells whether operations may be counted: on a GPU with room, where nothing is compiled."""
    if device is None or device.kind != "cuda" or model is None or model.compiled:
        return False
    return memory is None or memory.peak_reserved_bytes <= HEADROOM * device.capacity_bytes
