"""Sweeps as lists show them, and their cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from memorymark.documents import INLINE, LEFT_OUT, Document, Record, in_document
from memorymark.results.grid import GridCase, GridGroup, seconds_left
from memorymark.units import iso_time

SweepState = Literal["running", "finished", "stopped"]
CaseState = Literal["waiting", "done", "does_not_fit", "failed"]
# How often a sweep that runs gives a sign of life, and how long one that gives none counts as running.
SIGN_SECONDS, SILENCE_SECONDS = 5.0, 30.0


@dataclass(frozen=True)
class AxisValue(Record):
    """One value of what varies in a sweep."""

    value: Any
    """The value as it was given; null where it was not."""
    label: str
    """Its name for people."""


@dataclass(frozen=True)
class SweepAxis(Record):
    """An option that varies in a sweep."""

    name: str
    """The option, which the ``options`` of a case have."""
    title: str
    """Its label in a form."""
    values: tuple[AxisValue, ...]
    """Its values in the order of the sweep."""
    in_words: bool
    """Whether the model, the GPU, the sample or the recipe of a case says its value."""


@dataclass(frozen=True, kw_only=True)
class ListedSweep(Document):
    """A sweep as lists show it; times are in ISO 8601, UTC."""

    id: str
    """12 hexadecimal digits, the same for the same cases: a sweep that is run again stays the same sweep."""
    source: str
    """The name of its file; empty if it was asked for with flags."""
    axes: tuple[SweepAxis, ...]
    """The options that vary."""
    total: int
    """How many cases it has."""
    done: int
    """How many have ended, with an answer or without."""
    failed: int
    """How many ended without an answer; that a training does not fit is one."""
    reused: int
    """How many answers this run found in the history."""
    change: int
    """The number of the last change to a case."""
    started_at: float
    alive_at: float = field(metadata=LEFT_OUT)
    stopped_at: float | None = field(metadata=LEFT_OUT)
    finished_at: float | None
    now: float = field(metadata=LEFT_OUT)

    @property
    @in_document
    def state(self) -> SweepState:
        """How it stands; ``stopped`` half a minute after its process was killed, too. The same command resumes it."""
        if self.finished_at is not None:
            return "finished"
        is_silent = self.now - self.alive_at > SILENCE_SECONDS
        return "stopped" if is_silent or self.stopped_at is not None else "running"

    @property
    def seconds(self) -> float:
        """How long this run of it took, or takes so far."""
        return max((self.finished_at or self.alive_at) - self.started_at, 0.0)

    @property
    @in_document
    def seconds_left(self) -> float | None:
        """How long the rest takes at the pace so far; null if it does not run, or there is no pace yet."""
        if self.state != "running":
            return None
        return seconds_left(total=self.total, done=self.done, reused=self.reused, seconds=self.seconds)

    @property
    @in_document(name="started_at")
    def started(self) -> str:
        """When its latest run started."""
        return iso_time(self.started_at)

    @property
    @in_document(name="finished_at")
    def finished(self) -> str | None:
        """When all cases had ended; null until then."""
        return iso_time(self.finished_at) if self.finished_at else None


@dataclass(frozen=True, kw_only=True)
class SweepCase(Document):
    """A case of a sweep that may still run."""

    case: GridCase = field(metadata=INLINE)
    is_answered: bool = field(metadata=LEFT_OUT)

    @property
    @in_document
    def state(self) -> CaseState:
        """How far it is; one that waits has no numbers yet."""
        if not self.is_answered:
            return "waiting"
        if self.case.fits:
            return "done"
        return "failed" if self.case.has_failed else "does_not_fit"


@dataclass(frozen=True, kw_only=True)
class SweepView(Document):
    """A sweep with its cases."""

    listed: ListedSweep = field(metadata=INLINE)
    cases: tuple[SweepCase, ...]
    """Those that changed after the change that was asked for, the latest last."""
    upto: int
    """What to pass as ``after`` to hear only of what changes from now on."""
    more: bool
    """Whether more cases have changed than were asked for; ask again right away."""
    groups: tuple[GridGroup, ...] | None
    """What can be compared so far, and what is best; null if nothing has changed, or there is more to ask for."""
