"""Progress events that callers receive while the work runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from memorymark.documents import IF_KNOWN, Record, in_document
from memorymark.errors import MemoryMarkError
from memorymark.results.trial import Trial

Stage = Literal["start", "search", "throughput", "validate", "advise", "confirm", "suggest"]


@dataclass(frozen=True)
class StageStarted(Record):
    """A stage of the work begins; the message says what it does.

    In a search, ``capacity_bytes`` is the memory the allocator may use, ``target_bytes`` the device's total, and
    ``capped`` says that the caller's limit set both. Other stages leave them ``None``.
    """

    stage: Stage
    message: str
    capacity_bytes: int | None = field(default=None, metadata=IF_KNOWN)
    target_bytes: int | None = field(default=None, metadata=IF_KNOWN)
    capped: bool | None = field(default=None, metadata=IF_KNOWN)

    @property
    @in_document
    def event(self) -> Literal["stage"]:
        """Which event it is."""
        return "stage"


@dataclass(frozen=True)
class TrialFinished(Record):
    """A trial of one batch size has finished."""

    stage: Stage
    trial: Trial

    @property
    @in_document
    def event(self) -> Literal["trial"]:
        """Which event it is."""
        return "trial"


Event = StageStarted | TrialFinished
EVENTS: dict[str, type[Event]] = {"stage": StageStarted, "trial": TrialFinished}
OnEvent = Callable[[Event], None]


def ignore(_: Event) -> None:
    """Does nothing, for callers that only want the result."""


class HeardTrials:
    """Collects the trials from events, and passes every event on, so that an error can carry the trials so far."""

    def __init__(self, on_event: OnEvent) -> None:
        self.trials: list[Trial] = []
        self._on_event = on_event

    def hear(self, event: Event) -> None:
        """Takes one event."""
        if isinstance(event, TrialFinished):
            self.trials.append(event.trial)
        self._on_event(event)

    @contextmanager
    def kept_on_error(self) -> Iterator[None]:
        """Attaches the trials so far to any error raised inside."""
        try:
            yield
        except MemoryMarkError as error:
            error.trials = self.trials
            raise
