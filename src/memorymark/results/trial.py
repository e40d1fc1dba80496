"""The outcome of running, or predicting, training steps at one batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal

from memorymark.documents import ADDED_LATER, Record, in_document
from memorymark.results.shown import Shown

Source = Literal["measured", "predicted"]
FailureKind = Literal["memory", "limit"]


@dataclass(frozen=True)
class Breakdown(Record):
    """What the device held when the step was at its peak. The parts add up to the trial's ``device_bytes``."""

    weights_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_state_bytes: int = 0
    kv_cache_bytes: int = field(default=0, metadata=ADDED_LATER)
    activations_bytes: int = 0
    temporaries_bytes: int = 0
    allocator_slack_bytes: int = 0
    context_bytes: int = 0
    other_processes_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """The sum of the parts."""
        return sum(getattr(self, part.name) for part in fields(self))

    def on_device(self, *, reserved_bytes: int, device_bytes: int, other_processes_bytes: int) -> Breakdown:
        """Returns the breakdown with what the device held besides tensors: slack, the context, other processes."""
        outside_bytes = max(device_bytes - reserved_bytes, 0)
        others_bytes = min(other_processes_bytes, outside_bytes)
        return replace(
            self,
            allocator_slack_bytes=reserved_bytes - self.total_bytes,
            context_bytes=outside_bytes - others_bytes,
            other_processes_bytes=others_bytes,
        )


@dataclass(frozen=True)
class Failure(Record):
    """Why a batch size does not train: ``memory`` ran out, or a kernel reached a launch ``limit``.

    ``requested_bytes`` and ``free_bytes`` are those of the allocation that failed, or of the whole step if it is known
    to need more memory than there is.
    """

    kind: FailureKind
    message: str
    requested_bytes: int | None = None
    free_bytes: int | None = None

    @property
    def shortfall_bytes(self) -> int | None:
        """The least memory that was missing, or ``None`` if unknown."""
        if self.requested_bytes is None or self.free_bytes is None:
            return None
        return max(self.requested_bytes - self.free_bytes, 0)


def why_nothing_fits(trials: Sequence[Trial]) -> Trial:
    """Returns the smallest of the failed trials that ran out of memory, or else the last trial."""
    return next((t for t in reversed(trials) if t.failure and t.failure.kind == "memory"), trials[-1])


@dataclass(frozen=True, kw_only=True)
class Trial(Record, Shown):
    """One trial of one batch size.

    Peaks are also kept by phase, because at small batches the overall peak is the optimizer's and says nothing about
    larger batches. ``between_peak_bytes`` are those of what a caller runs between steps, by name. ``resting_bytes`` is
    what stays allocated between steps.
    ``allocator_retries`` counts only retries after the first step, since these recur for the whole training.
    ``intervals`` maps the names of predicted numbers to the intervals that should hold the true ones.
    ``step_seconds`` of a predicted trial that does not fit is what the step would take with more memory.
    ``peak_host_bytes`` is what offloaded tensors take in the host's memory at their peak, as torch rounds up pinned
    ones: to a power of two.
    ``tokens_per_sample`` is how many a sample of text has, ``None`` for other samples.
    ``kv_cache_bytes`` is what generating the completions of a step keeps for all of their tokens, before training frees
    it; 0 if a step generates nothing. ``generation_peak_bytes`` is the peak then.
    """

    kind: ClassVar[Literal["trial"]] = "trial"

    batch_size: int
    fits: bool
    source: Source = "measured"
    steps: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    forward_peak_bytes: int = 0
    backward_peak_bytes: int = 0
    optimizer_peak_bytes: int = field(default=0, metadata=ADDED_LATER)
    between_peak_bytes: dict[str, int] = field(default_factory=dict, metadata=ADDED_LATER, hash=False)
    resting_bytes: int = 0
    device_bytes: int = 0
    allocator_retries: int = 0
    breakdown: Breakdown | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    step_seconds_spread: float | None = None
    failure: Failure | None = None
    intervals: dict[str, tuple[float, float]] | None = field(default=None, metadata=ADDED_LATER, hash=False)
    peak_host_bytes: int = field(default=0, metadata=ADDED_LATER)
    tokens_per_sample: int | None = field(default=None, metadata=ADDED_LATER)
    kv_cache_bytes: int = field(default=0, metadata=ADDED_LATER)
    generation_peak_bytes: int = field(default=0, metadata=ADDED_LATER)

    @property
    def step_peak_bytes(self) -> int:
        """The peak of allocated bytes in the step itself, without what runs between steps; 0 if it was not kept."""
        return max(self.forward_peak_bytes, self.backward_peak_bytes, self.optimizer_peak_bytes)

    @property
    def rate_unit(self) -> Literal["tokens/s", "samples/s"]:
        """The unit in which people read its throughput."""
        return "tokens/s" if self.tokens_per_sample else "samples/s"

    @property
    def rate(self) -> float:
        """Its throughput in that unit; 0 if it was not timed."""
        return (self.samples_per_second or 0.0) * (self.tokens_per_sample or 1)

    @property
    @in_document(older=None)
    def tokens_per_batch(self) -> int | None:
        """Tokens in one forward pass; null if the samples are not text."""
        return self.batch_size * self.tokens_per_sample if self.tokens_per_sample else None

    @property
    @in_document(older=None)
    def tokens_per_second(self) -> float | None:
        """Throughput in tokens; null if the samples are not text, or nothing was timed."""
        if not self.tokens_per_sample or self.samples_per_second is None:
            return None
        return self.samples_per_second * self.tokens_per_sample
