"""Turns an observation into a report: the estimate, the breakdown and the findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memorymark.documents import INLINE, Document, in_document
from memorymark.results.trial import Breakdown
from memorymark.watch.findings.base import Estimate
from memorymark.watch.maximum import estimate_maximum
from memorymark.watch.observation import Observation
from memorymark.watch.verdict import Verdict, judge


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
