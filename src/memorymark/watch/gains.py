"""How much faster a change would make a training: predicted from its step if possible, else measured or assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from memorymark.catalog import gpu_with_id
from memorymark.watch.observation import Observation

if TYPE_CHECKING:  # who has nothing to time needs no torch
    from memorymark.watch.step_time import StepTime, TimedStep

GainBasis = Literal["predicted", "measured", "assumed"]
"""From the operations of one step and the GPU's rates; from how long the training waits; or a usual value."""

# A prediction of today's step that is further off than this says nothing of tomorrow's.
FURTHEST_OFF = 2.5
# A predicted gain may be this power of itself, which two predictions that are both a little off explain.
LEAST_POWER, MOST_POWER = 0.6, 1.4
# From this fraction on a GPU counts as busy.
BUSY = 0.9
# Of the GPU's time in kernels that can be fused, torch.compile saves so much: usual, least and most. Measured on an
# H200: 33 % (BERT), 50 % (ResNet-50) and 82 % (GPT-2), all in bf16. And what is left of the host's time.
FUSING_SAVES = (0.5, 0.3, 0.85)
COMPILED_HOST = (0.7, 1.1, 0.35)


@dataclass(frozen=True)
class Gain:
    """How many times more samples per second a change makes, with an interval."""

    speedup: float
    low: float
    high: float
    basis: GainBasis

    @property
    def text(self) -> str:
        """The gain for people."""
        if self.basis == "measured":
            return f"up to {self.high:.1f}x"
        if self.high < 1.1:
            return "a few per cent"
        return f"about {self.speedup:.2f}x ({self.low:.1f} to {self.high:.1f}x)"


class Gains:
    """The gains of changes to one training."""

    def __init__(self, seen: Observation) -> None:
        self._seen = seen

    def precision(self, low: str, rated: float | None) -> Gain:
        """Of training in 16 bits, which the GPU multiplies ``rated`` times faster."""

        def in_half(step: TimedStep) -> StepTime:
            import torch

            return step.in_half(torch.bfloat16 if low == "bf16" else torch.float16)

        if self._seen.tf32:
            return self._of(in_half, (1.4, 1.0, 2.5))
        return self._of(in_half, (min(3.0, rated or 3.0), 1.2, max(rated or 4.0, 3.0)))

    def batch(self, size: int, accumulate: int) -> Gain:
        """Of a larger batch and so many accumulation steps."""
        seen = self._seen
        factor, fewer = size / (seen.batch_size or size), seen.micro_batches / accumulate
        samples = factor / fewer
        idle = 1 / max(seen.busy, 0.05) if seen.busy is not None and seen.busy < BUSY else None
        usual = (idle**0.5, 1.0, idle) if idle is not None else (1.1, 1.0, 1.3)
        return self._of(lambda step: step.larger(factor, fewer), usual, samples=samples)

    def channels_last(self) -> Gain:
        """Of convolutions in the layout of tensor cores."""
        return self._of(lambda step: step.in_channels_last(), (1.3, 1.0, 2.0))

    def fused(self) -> Gain:
        """Of the fused optimizer."""
        return self._of(lambda step: step.with_fused_updates(), (1.03, 1.0, 1.09))

    def without_checkpointing(self) -> Gain:
        """Of running the forward pass only once."""
        return self._assumed(1.25, 1.1, 1.33)

    def compiled(self) -> Gain | None:
        """Of compiling the model; ``None`` if the step's operations are not known."""
        if self._timed is None:
            return None
        now = self._now

        def seconds(saves: float, host: float) -> float:
            return self._seconds(now.device_seconds - saves * now.fused_seconds, host * now.host_seconds)

        usual, low, high = (
            self._overall(self._seconds(now.device_seconds, now.host_seconds) / seconds(saves, host))
            for saves, host in zip(FUSING_SAVES, COMPILED_HOST, strict=True)
        )
        return Gain(usual, low, high, "predicted")

    def without_idling(self) -> Gain:
        """Of a host that keeps the GPU busy."""
        bound = 1 / max(self._seen.busy or 1.0, 0.05)
        return Gain(bound**0.5, 1.0, bound, "measured")

    @cached_property
    def _timed(self) -> TimedStep | None:
        seen = self._seen
        gpu = gpu_with_id(seen.device.gpu_id) if seen.device is not None else None
        if seen.operations is None or gpu is None or gpu.memory_only:
            return None
        from memorymark.watch.step_time import TimedStep

        timed = TimedStep(seen.operations, gpu, tf32=seen.tf32)
        if not timed.is_known:
            return None
        self._now = timed.as_it_is()
        return timed if self._is_right else None

    @property
    def _work_seconds(self) -> float | None:
        """The measured seconds of a step in which it does not wait for data."""
        seen = self._seen
        return seen.step_seconds * (1 - (seen.lost or 0.0)) if seen.step_seconds else None

    @property
    def _is_right(self) -> bool:
        """Tells whether today's step was predicted about right, where that can be told."""
        from memorymark.prediction.timing.roofline import step_seconds

        work = self._work_seconds
        predicted = step_seconds(self._now.device_seconds, self._now.host_seconds)
        return work is None or 1 / FURTHEST_OFF <= predicted / work <= FURTHEST_OFF

    def _seconds(self, device: float, host: float) -> float:
        """Returns a step's time, by what was measured of today's."""
        from memorymark.prediction.timing.roofline import step_seconds

        work, busy, now = self._work_seconds, self._seen.busy, self._now
        if work is not None and busy is not None:
            device *= (work if busy >= BUSY else busy * work) / now.device_seconds
            slowest = work if busy < BUSY else min(now.host_seconds, BUSY * work)
            host *= slowest / now.host_seconds
        return step_seconds(device, host)

    def _of(
        self,
        change: Callable[[TimedStep], StepTime],
        usual: tuple[float, float, float],
        *,
        samples: float = 1.0,
    ) -> Gain:
        timed = self._timed
        if timed is None:
            return self._assumed(*usual)
        after = change(timed)
        before = self._seconds(self._now.device_seconds, self._now.host_seconds)
        ratio = samples * before / self._seconds(after.device_seconds, after.host_seconds)
        powers = sorted((ratio**LEAST_POWER, ratio**MOST_POWER))
        low, high = map(self._overall, powers)
        return Gain(self._overall(ratio), low, high, "predicted")

    def _assumed(self, usual: float, low: float, high: float) -> Gain:
        return Gain(self._overall(usual), self._overall(low), self._overall(high), "assumed")

    def _overall(self, ratio: float) -> float:
        """Returns the speedup of the whole step if that of its work is known: the waiting stays."""
        lost = self._seen.lost or 0.0
        return 1 / (lost + (1 - lost) / ratio)
