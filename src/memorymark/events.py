"""What a caller hears while the work goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memorymark.trial import Trial

Stage = Literal["start", "search", "throughput", "validate", "advise", "confirm"]


@dataclass(frozen=True)
class StageStarted:
    """A stage of the work begins; the message says what it does.

    ``capacity_bytes`` is what the search has to keep within; other stages have none.
    """

    stage: Stage
    message: str
    capacity_bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON types."""
        told = {"event": "stage", "stage": self.stage, "message": self.message}
        return told if self.capacity_bytes is None else {**told, "capacity_bytes": self.capacity_bytes}


@dataclass(frozen=True)
class TrialFinished:
    """A batch size has been tried."""

    stage: Stage
    trial: Trial

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON types."""
        return {"event": "trial", "stage": self.stage, "trial": self.trial.to_dict()}


Event = StageStarted | TrialFinished
OnEvent = Callable[[Event], None]


def ignore(_: Event) -> None:
    """For callers that only want the result."""
