"""Turns an observation into a report: the estimate, the breakdown and the findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memorymark.documents import INLINE, Document, in_document
from memorymark.largest_batch import MAX_BATCH, largest_that
from memorymark.results.trial import Breakdown
from memorymark.watch.drop_outputs import without_outputs
from memorymark.watch.estimate import ScaledStep
from memorymark.watch.findings.base import Estimate
from memorymark.watch.observation import SAME_PEAK, Observation
from memorymark.watch.verdict import Verdict, judge

# The fraction that stays free at the recommended batch: samples differ, and so do runs.
MARGIN = 0.1
# From this factor on, a loop that keeps only the loss fits a batch worth mentioning.
WORTH_A_WORD = 1.02


@dataclass(frozen=True, kw_only=True)
class Report(Document):
    """What was observed of a training, and the conclusions; ``exit_code`` is the script's, if a script was watched."""

    kind: ClassVar[Literal["watch"]] = "watch"

    title: str
    verdict: Verdict = field(metadata=INLINE)
    observation: Observation = field(metadata=INLINE)
    estimate: Estimate | None = None
    breakdown: Breakdown | None = None
    exit_code: int | None = None

    @property
    @in_document
    def status(self) -> Literal["ok", "nothing trained"]:
        """Whether there was a training to watch."""
        return "ok" if self.observation.steps else "nothing trained"


def make_report(title: str, seen: Observation, exit_code: int | None = None) -> Report:
    """Makes the report of an observation."""
    estimate, breakdown = estimate_maximum(seen), break_down(seen)
    verdict = judge(seen, estimate, exit_code)
    return Report(
        title=title, observation=seen, verdict=verdict, estimate=estimate, breakdown=breakdown, exit_code=exit_code
    )


def estimate_maximum(seen: Observation) -> Estimate | None:
    """Estimates the largest batch by replaying the recorded step; returns ``None`` without one."""
    step, memory, device = seen.recording, seen.memory, seen.device
    if step is None or memory is None or device is None or not device.capacity_bytes or step.batch_size < 1:
        return None
    scaled = ScaledStep(step, allocator=memory.allocator, capped=device.capped)
    today = scaled.replay(step.batch_size)
    growing = today.peak_allocated_bytes - today.resting_bytes
    # Samples longer than the recorded ones stretch the step by this factor: attention grows at most with their square.
    # A larger peak did not come from a training step.
    stretch = (memory.peak_allocated_bytes - today.resting_bytes) / growing if growing > 0 else 1.0
    stretch = min(stretch, seen.longest_batch**2)
    stretch = stretch if stretch > SAME_PEAK else 1.0

    def largest(capacity_bytes: int, scaled: ScaledStep = scaled) -> int:
        if memory.modelled:
            return int(scaled.largest_within(capacity_bytes) / stretch)
        fits = largest_that(
            lambda size: scaled.replay(size).peak_allocated_bytes <= capacity_bytes, step.batch_size, MAX_BATCH
        )
        return int(fits / stretch)

    def largest_without_outputs() -> int | None:
        if not step.kept_outputs:
            return None
        dropped = ScaledStep(without_outputs(step), allocator=memory.allocator, capped=device.capped)
        found = largest(device.capacity_bytes, dropped)
        return found if found > WORTH_A_WORD * maximum else None

    basis = f"one recorded step of batch {step.batch_size}, replayed larger in a model of torch's allocator"
    if not memory.modelled:
        basis += ", whose settings are not the default: fragmentation is left out"
    if stretch > 1:
        basis += f"; stretched by {stretch:.2f} because another step's batch was larger"
    today_size = seen.batch_size or step.batch_size
    maximum = max(largest(device.capacity_bytes), today_size if seen.ending is None else 1)
    safe = largest(int((1 - MARGIN) * device.capacity_bytes))
    return Estimate(
        maximum=maximum,
        recommended=min(_round(max(safe, 1)), maximum),
        basis=basis,
        maximum_without_outputs=largest_without_outputs(),
    )


def break_down(seen: Observation) -> Breakdown | None:
    """Returns the breakdown of the peak: the recorded step's parts, and the device's other memory."""
    step, memory, device = seen.recording, seen.memory, seen.device
    if step is None or memory is None or device is None:
        return None
    return step.breakdown(seen.training_peak_allocated_bytes or memory.peak_allocated_bytes).on_device(
        reserved_bytes=memory.peak_reserved_bytes,
        device_bytes=memory.device_bytes,
        other_processes_bytes=device.other_processes_bytes,
    )


def _round(size: int) -> int:
    """Rounds down to a multiple of 8, which suits kernels, if that changes little."""
    return size - size % 8 if size >= 32 else size
