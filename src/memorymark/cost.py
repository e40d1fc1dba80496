"""What the speed is worth in money."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from memorymark.errors import UsageError
from memorymark.type_checks import settle_types

SECONDS_PER_HOUR = 3600
MILLION = 1e6


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How much is trained: hours a run takes today, runs a year for one person, and people."""

    hours_per_run: float = 2.0
    runs_per_year: float = 100.0
    people: int = 1

    def __post_init__(self) -> None:
        settle_types(self)
        for name, value in asdict(self).items():
            if not 0 < value < math.inf:
                raise UsageError(f"--{name.replace('_', '-')} must be a number above 0, not {value:g}.")

    def to_dict(self) -> dict[str, Any]:
        """The usage as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Savings:
    """Dollars saved by training faster."""

    per_run_usd: float
    per_year_usd: float


def savings(usd_per_hour: float, usage: Usage, speedup: float) -> Savings:
    """A run that gets ``speedup`` times faster pays only 1/speedup of its hours."""
    per_run = usd_per_hour * usage.hours_per_run * (1 - 1 / speedup)
    return Savings(per_run, per_run * usage.runs_per_year * usage.people)


def usd_per_million_samples(usd_per_hour: float, samples_per_second: float) -> float:
    """What a million samples cost: the hours they take, paid by the hour."""
    return usd_per_hour / SECONDS_PER_HOUR / samples_per_second * MILLION
