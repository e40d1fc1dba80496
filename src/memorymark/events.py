"""What a caller hears while the work goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memorymark.trial import Trial

Stage = Literal["start", "search", "throughput", "validate", "advise", "confirm", "suggest"]


@dataclass(frozen=True)
class StageStarted:
    """A stage of the work begins; the message says what it does.

    Of a search, ``capacity_bytes`` is what the allocator has to keep within, ``target_bytes`` the memory that it is a
    part of, and ``capped`` says that the two are the caller's limit; other stages have none of them.
    """

    stage: Stage
    message: str
    capacity_bytes: int | None = None
    target_bytes: int | None = None
    capped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON types."""
        told: dict[str, Any] = {"event": "stage", "stage": self.stage, "message": self.message}
        if self.capacity_bytes is None:
            return told
        memory = {"capacity_bytes": self.capacity_bytes, "target_bytes": self.target_bytes, "capped": self.capped}
        return {**told, **memory}


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
