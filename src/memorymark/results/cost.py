"""What a speedup saves in dollars."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.question.usage import Usage

SECONDS_PER_HOUR = 3600
MILLION = 1e6


@dataclass(frozen=True)
class Savings:
    """Dollars saved by training faster."""

    per_run_usd: float
    per_year_usd: float


def savings(usd_per_hour: float, usage: Usage, speedup: float) -> Savings:
    """Returns the savings of a speedup: a run that is ``speedup`` times faster pays for 1/speedup of its hours."""
    per_run = usd_per_hour * usage.hours_per_run * (1 - 1 / speedup)
    return Savings(per_run, per_run * usage.runs_per_year * usage.people)


def usd_per_million_samples(usd_per_hour: float, samples_per_second: float) -> float:
    """Returns the cost of a million samples: the hours they take times the price."""
    return usd_per_hour / SECONDS_PER_HOUR / samples_per_second * MILLION
