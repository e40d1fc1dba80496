"""The time of a whole step at any batch size, and what it is made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Protocol

from memorymark.catalog import GpuEntry
from memorymark.devices.allocations import Phase
from memorymark.prediction.timing import recurrent as recurrent_time
from memorymark.prediction.timing.host_link import HostWork
from memorymark.prediction.timing.roofline import (
    RECURRENT,
    STEEPNESS,
    device_seconds,
    host_seconds,
    kind_of,
    launches,
    step_seconds,
)
from memorymark.prediction.tracing.fake_step import TracedStep
from memorymark.prediction.tracing.operation import COPIES, Operation
from memorymark.prediction.tracing.program import Growth
from memorymark.question.recipe import Recipe
from memorymark.results.uncertainty import Part


@dataclass(frozen=True)
class StepTime:
    """The seconds of a step, those of the host alone, and those on the device in each phase by kind of work.

    ``phases`` are the seconds of each phase, with the copies that the device waits for. ``never_timed`` are
    the device's seconds in operations that were never compared with a measurement.
    """

    seconds: float
    host: float
    device: dict[tuple[Phase, str], float]
    phases: dict[Phase, float]
    never_timed: float = 0.0

    @property
    def never_timed_share(self) -> float:
        """The share of operations that were never timed in the time of the device, and so at most in the step's."""
        return self.never_timed / max(sum(self.device.values()), 1e-12)

    def shares(self) -> dict[Part, float]:
        """Returns the share of each part in the time of the step, of which the slower of host and device has more."""
        seconds: Counter[Part] = Counter()
        for (_, kind), spent in self.device.items():
            seconds[part_of(kind)] += spent  # type: ignore[assignment]
        device = sum(seconds.values())
        host = 1.0 if device <= 0 else 1 / (1 + (device / max(self.host, 1e-12)) ** STEEPNESS)
        found: dict[Part, float] = {part: (1 - host) * spent / device for part, spent in seconds.items()}
        return found | {"host": host}


def part_of(kind: str) -> Part:
    """Returns the part of a step that a kind of work belongs to."""
    if "product" in kind:
        return "product"
    if "attention" in kind:
        return "attention"
    return "convolution" if kind == "convolution" else "recurrent" if kind == "recurrent" else "memory"


class Corrects(Protocol):
    """Corrects predicted times by what was measured on the GPU."""

    host_ratio: float
    """How many times longer than predicted the host takes."""

    def seconds(self, op: Operation, predicted: float, *, tf32: bool) -> float:
        """Returns the time of an operation that is predicted to take so long."""


class StepTimes:
    """Predicts how long a traced step takes on a GPU.

    ``untimed`` are the operations that were never timed; ``correction`` corrects times by a profile of the GPU.
    """

    def __init__(
        self,
        step: TracedStep,
        recipe: Recipe,
        gpu: GpuEntry,
        untimed: frozenset[str] = frozenset(),
        correction: Corrects | None = None,
    ) -> None:
        self._step, self._recipe, self._gpu, self._untimed = step, recipe, gpu, untimed
        self._correction = correction

    def at(self, batch_size: int, peak_bytes: float = inf) -> StepTime:
        """Returns the time at a batch size, in a step with this memory peak."""
        device: Counter[tuple[Phase, str]] = Counter()
        recurrent = never_timed = 0.0
        for phase, growth, count in self._kernels:
            operation, times = growth.at(batch_size), count * growth.times(batch_size)
            seconds = times * self._device_seconds(operation, peak_bytes)
            device[phase, kind_of(operation, self._gpu)] += seconds  # type: ignore[assignment]
            never_timed += seconds if operation.name in self._untimed else 0.0
            if operation.name in RECURRENT:
                recurrent += count * recurrent_time.host_seconds(operation, self._gpu)
        host_work = self._host_work(batch_size)
        phases: dict[Phase, float] = {}
        # In the order of the step: a set's order differs between processes, and with it the last digit of the sum.
        for phase in dict.fromkeys([*(phase for phase, _ in device), *host_work]):
            on_device = sum(seconds for (other, _), seconds in device.items() if other == phase)
            phases[phase] = host_work[phase].seconds_beside(on_device, self._gpu)
        host = self._host_seconds(batch_size) + recurrent
        host *= 1.0 if self._correction is None else self._correction.host_ratio
        return StepTime(step_seconds(sum(phases.values()), host), host, dict(device), phases, never_timed)

    def _device_seconds(self, operation: Operation, peak_bytes: float) -> float:
        seconds = device_seconds(operation, self._gpu, tf32=self._recipe.tf32, peak_bytes=peak_bytes)
        return (
            seconds
            if self._correction is None
            else self._correction.seconds(operation, seconds, tf32=self._recipe.tf32)
        )

    @cached_property
    def _kernels(self) -> list[tuple[Phase, Growth, int]]:
        """Returns the kinds of operations in each phase of a step and how often each occurs."""
        counts: dict[tuple[object, ...], tuple[Phase, Growth, int]] = {}
        for phase, growth, times in self._step.later.counted(self._recipe.accumulation_steps):
            op = growth.operation
            if launches(op):
                inputs = tuple((t.shape, t.dtype, t.contiguous, t.channels_last) for t in op.inputs)
                grown = tuple(t.shape for t in growth.larger.inputs)
                key = (phase, op.name, inputs, grown, op.arguments, growth.repeats)
                counts[key] = (phase, growth, counts.get(key, (phase, growth, 0))[2] + times)
        return list(counts.values())

    @cached_property
    def _copies(self) -> list[tuple[Phase, Growth, int]]:
        """Returns the operations of a step that copy between device and host, or run on the host."""
        counted = self._step.later.counted(self._recipe.accumulation_steps)
        return [one for one in counted if one[1].operation.on_host or one[1].operation.base_name in COPIES]

    def _host_work(self, batch_size: int) -> dict[Phase, HostWork]:
        """Returns the copies and the work on the host in each phase of a step."""
        phases: dict[Phase, HostWork] = defaultdict(HostWork)
        for phase, growth, times in self._copies:
            phases[phase].add(growth.at(batch_size), times * growth.times(batch_size))
        return phases

    def _host_seconds(self, batch_size: int) -> float:
        updated = self._step.tensors - self._step.frozen_tensors if self._recipe.optimizer != "none" else 0
        steps, program = self._recipe.accumulation_steps, self._step.later
        size = batch_size if program.loops else 1
        return host_seconds(program, updated, fused=self._recipe.fused, accumulation_steps=steps, batch_size=size)
