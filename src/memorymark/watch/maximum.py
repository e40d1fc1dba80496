"""Estimates the largest batch of a watched training from one of its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from memorymark.largest_batch import MAX_BATCH, largest_that
from memorymark.watch.drop_outputs import without_outputs
from memorymark.watch.estimate import ScaledStep
from memorymark.watch.findings.base import Estimate
from memorymark.watch.observation import SAME_PEAK, MemoryFacts, Observation
from memorymark.watch.recording import StepRecording

# The fraction that stays free at the recommended batch: samples differ, and so do runs.
MARGIN = 0.1
# From this factor on, a loop that keeps only the loss fits a batch worth mentioning.
WORTH_A_WORD = 1.02


@dataclass(frozen=True, kw_only=True)
class _Replay:
    """A recorded step, the memory it ran in, and the factor by which longer samples stretch it."""

    step: StepRecording
    memory: MemoryFacts
    capped: bool
    stretch: float = 1.0

    @cached_property
    def scaled(self) -> ScaledStep:
        return ScaledStep(self.step, allocator=self.memory.allocator, capped=self.capped)

    def stretched(self, longest_batch: float) -> _Replay:
        """Stretches the step if the training peaked higher; ``longest_batch`` is the largest over the recorded one."""
        today = self.scaled.replay(self.step.batch_size)
        growing = today.peak_allocated_bytes - today.resting_bytes
        if growing <= 0:
            return self
        # Attention grows at most with the square of a sample's length. A larger peak did not come from a training step.
        stretch = min((self.memory.peak_allocated_bytes - today.resting_bytes) / growing, longest_batch**2)
        return replace(self, stretch=stretch) if stretch > SAME_PEAK else self

    def largest(self, capacity_bytes: int) -> int:
        """Returns the largest batch that should fit."""
        scaled = self.scaled
        if self.memory.modelled:
            fits = scaled.largest_within(capacity_bytes)
        else:
            fits = largest_that(
                lambda size: scaled.replay(size).peak_allocated_bytes <= capacity_bytes, self.step.batch_size, MAX_BATCH
            )
        return int(fits / self.stretch)

    @property
    def basis(self) -> str:
        """What the estimate rests on, in words."""
        words = f"one recorded step of batch {self.step.batch_size}, replayed larger in a model of torch's allocator"
        if not self.memory.modelled:
            words += ", whose settings are not the default: fragmentation is left out"
        if self.stretch > 1:
            words += f"; stretched by {self.stretch:.2f} because another step's batch was larger"
        return words


def estimate_maximum(seen: Observation) -> Estimate | None:
    """Estimates the largest batch by replaying the recorded step; returns ``None`` without one."""
    step, memory, device = seen.recording, seen.memory, seen.device
    if step is None or memory is None or device is None or not device.capacity_bytes or step.batch_size < 1:
        return None
    replay = _Replay(step=step, memory=memory, capped=device.capped).stretched(seen.longest_batch)
    today = seen.batch_size or step.batch_size
    maximum = max(replay.largest(device.capacity_bytes), today if seen.ending is None else 1)
    safe = replay.largest(int((1 - MARGIN) * device.capacity_bytes))
    without = 0
    if step.kept_outputs:
        without = replace(replay, step=without_outputs(step)).largest(device.capacity_bytes)
    return Estimate(
        maximum=maximum,
        recommended=min(_round(max(safe, 1)), maximum),
        basis=replay.basis,
        maximum_without_outputs=without if without > WORTH_A_WORD * maximum else None,
    )


def _round(size: int) -> int:
    """Rounds down to a multiple of 8, which suits kernels, if that changes little."""
    return size - size % 8 if size >= 32 else size
