"""What a sweep needs of an engine: somewhere to run workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memorymark.sweep.cases import Case
from memorymark.sweep.work import Happened, Work


class Engine(Protocol):
    """Runs workers somewhere. It decides where, and nothing else."""

    @property
    def measures_by_default(self) -> bool:
        """Whether a case that names neither a GPU nor a device is measured; else it is predicted."""

    @property
    def width(self) -> int:
        """How many sets run at a time."""

    def require(self, cases: Sequence[Case]) -> None:
        """Raises if there is no place for one of the cases."""

    def submit(self, work: Work) -> None:
        """Takes a set of cases to answer."""

    def next(self, seconds: float) -> list[Happened]:
        """Waits at most so long for something to happen, and returns what did."""

    def close(self) -> None:
        """Ends all that runs."""
