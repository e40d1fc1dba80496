"""What one GPU did while one job held it: the one form that every source brings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from memorymark.fleet.thresholds import IDLE_BUSY, IDLE_WINDOW_SECONDS
from memorymark.results.fleet import HolderKind, Source


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a slice of one; ``name`` is what the driver or the scheduler calls its model."""

    host: str
    index: str
    name: str = ""
    slice: str = ""
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a GPU: a job of Slurm, a pod, a process, or only the GPU's own name where nobody tells.

    ``started`` is in seconds since 1970.
    """

    kind: HolderKind
    id: str
    owner: str = ""
    name: str = ""
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time: how busy the GPU was (0 to 1) and its spread, memory at most, and two of its units."""

    seconds: float
    busy: float
    deviation: float | None = None
    used_bytes: float | None = None
    tensor: float | None = None
    dram: float | None = None


@dataclass(frozen=True)
class Hold:
    """The time that one job held one GPU, as a source saw it.

    ``age_seconds`` is how old the job is at least, if known; ``ended`` says that it no longer runs.
    """

    holder: Holder
    device: Device
    windows: tuple[Window, ...]
    source: Source
    age_seconds: float | None
    ended: bool = False

    @cached_property
    def seconds(self) -> float:
        """The GPU's time that was the job's; a GPU that several share counts in part."""
        return sum(window.seconds for window in self.windows)

    @cached_property
    def busy(self) -> float:
        """The part of the time in which a kernel ran."""
        return mean(self.windows, "busy") or 0.0

    @cached_property
    def idle_seconds(self) -> float:
        """The time in whole windows in which the GPU did nothing to speak of."""
        long = [window for window in self.windows if window.seconds >= IDLE_WINDOW_SECONDS]
        return sum(window.seconds for window in long if window.busy < IDLE_BUSY)

    @cached_property
    def at_work(self) -> tuple[Window, ...]:
        """The windows that are not idle."""
        return tuple(
            window for window in self.windows if window.busy >= IDLE_BUSY or window.seconds < IDLE_WINDOW_SECONDS
        )

    @cached_property
    def used_bytes(self) -> int | None:
        """The most memory that was in use."""
        known = [window.used_bytes for window in self.windows if window.used_bytes is not None]
        return int(max(known)) if known else None


def mean(windows: Iterable[Window], name: str) -> float | None:
    """Returns the mean of a part of windows over their time; ``None`` if no window has it."""
    known = [(getattr(window, name), window.seconds) for window in windows if getattr(window, name) is not None]
    total = sum(seconds for _, seconds in known)
    return sum(value * seconds for value, seconds in known) / total if total else None


def bursts(windows: tuple[Window, ...]) -> float | None:
    """Returns the spread of the utilization within windows; ``None`` if a source gave only means.

    What changes from window to window are phases of a job, unless windows are as short as samples.
    """
    if any(window.seconds < IDLE_WINDOW_SECONDS or window.deviation is None for window in windows):
        return deviation(windows)
    total = sum(window.seconds for window in windows)
    return sqrt(sum((window.deviation or 0.0) ** 2 * window.seconds for window in windows) / total) if total else None


def deviation(windows: tuple[Window, ...]) -> float | None:
    """Returns the spread of the utilization over all samples of the windows; ``None`` if a source gave only means."""
    center, total = mean(windows, "busy"), sum(window.seconds for window in windows)
    if center is None or not total or any(window.deviation is None for window in windows):
        return None
    squares = (((window.deviation or 0.0) ** 2 + (window.busy - center) ** 2) * window.seconds for window in windows)
    return sqrt(sum(squares) / total)
