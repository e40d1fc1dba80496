"""What a caller hears while the work goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memorymark.trial import Trial

Stage = Literal["start", "search", "throughput", "validate", "advise", "confirm"]


@dataclass(frozen=True)
class StageStarted:
    """A stage of the work begins; the message says what it does."""

    stage: Stage
    message: str

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON types."""
        return {"event": "stage", "stage": self.stage, "message": self.message}


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
