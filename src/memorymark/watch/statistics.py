"""Sums over the steps of a training of any length, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from statistics import median

KEPT_STEPS = 256
KEPT_KINDS = 64


@dataclass
class StepSums:
    """Sums over all timed steps of one kind, and some of their durations for the median."""

    steps: int = 0
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    between_seconds: float = 0.0
    kept: list[float] = field(default_factory=list)
    # Its own generator, so that the script's random numbers stay unchanged.
    _random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - a sample of durations, no secret

    def add(self, seconds: float, waiting_seconds: float, between_seconds: float) -> None:
        """Adds a step."""
        self.steps += 1
        self.seconds += seconds
        self.waiting_seconds += waiting_seconds
        self.between_seconds += between_seconds
        if len(self.kept) < KEPT_STEPS:
            self.kept.append(seconds)
        elif (at := self._random.randrange(self.steps)) < KEPT_STEPS:
            self.kept[at] = seconds

    @property
    def median_seconds(self) -> float:
        """The median duration."""
        return median(self.kept)


def count_up(counts: Counter[int], key: int) -> None:
    """Counts a key; past a bound, new keys are counted together."""
    if key in counts or len(counts) < KEPT_KINDS:
        counts[key] += 1
