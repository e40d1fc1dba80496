"""From what was observed to a report: the estimate, the breakdown and the findings in one piece."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from memorymark.integrations.estimate import ScaledStep
from memorymark.integrations.observation import Observation
from memorymark.integrations.verdict import Estimate, Verdict, judge
from memorymark.search import MAX_BATCH, largest_that
from memorymark.trial import Breakdown

# What stays free at the recommended batch: samples differ, and so do runs.
MARGIN = 0.1
# The measured peak may exceed the recorded step's by this without another explanation than rounding.
SAME_PEAK = 1.02


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a training showed, and what to make of it; ``exit_code`` is that of the script, if it was one."""

    title: str
    observation: Observation
    verdict: Verdict
    estimate: Estimate | None = None
    breakdown: Breakdown | None = None
    exit_code: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As one JSON document, without the recorded step's thousands of events."""
        return {
            "status": "ok" if self.observation.steps else "nothing trained",
            "title": self.title,
            "exit_code": self.exit_code,
            "headline": self.verdict.headline,
            "findings": [asdict(finding) for finding in self.verdict.findings],
            "estimate": asdict(self.estimate) if self.estimate else None,
            "breakdown": asdict(self.breakdown) if self.breakdown else None,
            **{name: value for name, value in self._facts().items() if name != "recording"},
        }

    def _facts(self) -> dict[str, Any]:
        seen = replace(self.observation, recording=None)
        return {
            **seen.to_dict(),
            "effective_batch_size": seen.effective_batch_size,
            "samples_per_second": seen.samples_per_second,
            "lost": seen.lost,
        }


def make_report(title: str, seen: Observation, exit_code: int | None = None) -> Report:
    """Works out what the observation means."""
    estimate, breakdown = estimate_maximum(seen), break_down(seen)
    verdict = judge(seen, estimate, exit_code)
    return Report(
        title=title, observation=seen, verdict=verdict, estimate=estimate, breakdown=breakdown, exit_code=exit_code
    )


def estimate_maximum(seen: Observation) -> Estimate | None:
    """The largest batch by a replay of the recorded step; ``None`` without one."""
    step, memory, device = seen.recording, seen.memory, seen.device
    if step is None or memory is None or device is None or not device.capacity_bytes or step.batch_size < 1:
        return None
    scaled = ScaledStep(step)
    today = scaled.replay(step.batch_size)
    growing = today.peak_allocated_bytes - today.resting_bytes
    # Longer samples than the recorded ones stretch the step by this: attention grows with their square at most. What
    # took more than that was no step of the training.
    stretch = (memory.peak_allocated_bytes - today.resting_bytes) / growing if growing > 0 else 1.0
    stretch = min(stretch, seen.longest_batch**2)
    stretch = stretch if stretch > SAME_PEAK else 1.0

    def largest(capacity_bytes: int) -> int:
        if memory.modelled:
            return int(scaled.largest_within(capacity_bytes) / stretch)
        fits = largest_that(
            lambda size: scaled.replay(size).peak_allocated_bytes <= capacity_bytes, step.batch_size, MAX_BATCH
        )
        return int(fits / stretch)

    basis = f"one recorded step of batch {step.batch_size}, replayed larger in a model of torch's allocator"
    if not memory.modelled:
        basis += ", whose settings are not the default: fragmentation is left out"
    if stretch > 1:
        basis += f"; stretched by {stretch:.2f} because another step's batch was larger"
    today_size = seen.batch_size or step.batch_size
    maximum = max(largest(device.capacity_bytes), today_size if seen.ending is None else 1)
    safe = largest(int((1 - MARGIN) * device.capacity_bytes))
    return Estimate(maximum=maximum, recommended=min(_round(max(safe, 1)), maximum), basis=basis)


def break_down(seen: Observation) -> Breakdown | None:
    """What the peak was made of: the recorded step's parts, and what the device holds besides."""
    step, memory, device = seen.recording, seen.memory, seen.device
    if step is None or memory is None or device is None:
        return None
    return step.breakdown(memory.peak_allocated_bytes).on_device(
        reserved_bytes=memory.peak_reserved_bytes,
        device_bytes=memory.device_bytes,
        other_processes_bytes=device.other_processes_bytes,
    )


def _round(size: int) -> int:
    """Down to a multiple of 8, which kernels like, where that changes little."""
    return size - size % 8 if size >= 32 else size
