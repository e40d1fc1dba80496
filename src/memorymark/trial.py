"""The outcome of running, or predicting, training steps at one batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from memorymark.notebook import Shown

Source = Literal["measured", "predicted"]
FailureKind = Literal["memory", "limit"]


@dataclass(frozen=True)
class Breakdown:
    """What the device held when the step was at its peak. The parts add up to the trial's ``device_bytes``."""

    weights_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_state_bytes: int = 0
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
        """The same with what the device held besides tensors: the allocator's slack, the context, other processes."""
        outside_bytes = max(device_bytes - reserved_bytes, 0)
        others_bytes = min(other_processes_bytes, outside_bytes)
        return replace(
            self,
            allocator_slack_bytes=reserved_bytes - self.total_bytes,
            context_bytes=outside_bytes - others_bytes,
            other_processes_bytes=others_bytes,
        )


@dataclass(frozen=True)
class Failure:
    """Why a batch size does not train: ``memory`` ran out, or a kernel reached a launch ``limit``.

    ``requested_bytes`` and ``free_bytes`` are those of the request that failed; where the whole step is known to need
    more than there is, they are what it needs and what is there.
    """

    kind: FailureKind
    message: str
    requested_bytes: int | None = None
    free_bytes: int | None = None

    @property
    def shortfall_bytes(self) -> int | None:
        """How much memory was missing, at the least."""
        if self.requested_bytes is None or self.free_bytes is None:
            return None
        return max(self.requested_bytes - self.free_bytes, 0)


def why_nothing_fits(trials: Sequence[Trial]) -> Trial:
    """Of trials that all failed, the smallest that ran out of memory; else the last."""
    return next((t for t in reversed(trials) if t.failure and t.failure.kind == "memory"), trials[-1])


@dataclass(frozen=True, kw_only=True)
class Trial(Shown):
    """One batch size, tried.

    The peaks by phase say what the overall peak hides: at small batches it is the optimizer's and says nothing
    about larger ones. ``resting_bytes`` is what stays allocated between steps.
    ``allocator_retries`` counts only the steps after the first: retries there recur for the whole training.
    ``intervals`` gives, for a predicted number by its name, what the true one should lie between.
    """

    batch_size: int
    fits: bool
    source: Source = "measured"
    steps: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    forward_peak_bytes: int = 0
    backward_peak_bytes: int = 0
    resting_bytes: int = 0
    device_bytes: int = 0
    allocator_retries: int = 0
    breakdown: Breakdown | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    step_seconds_spread: float | None = None
    failure: Failure | None = None
    intervals: dict[str, tuple[float, float]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The trial as JSON types; ``from_dict`` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Trial:
        """The trial that ``to_dict`` wrote."""
        breakdown, failure, intervals = data["breakdown"], data["failure"], data.get("intervals")
        parts = {
            "breakdown": Breakdown(**breakdown) if breakdown else None,
            "failure": Failure(**failure) if failure else None,
            "intervals": {name: (low, high) for name, (low, high) in intervals.items()} if intervals else None,
        }
        return cls(**{**data, **parts})
