"""What a run costs, and what a speedup saves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memorymark.catalog import Price
from memorymark.documents import Document
from memorymark.question.limits import LARGEST_AMOUNT
from memorymark.question.usage import Usage
from memorymark.results.trial import Trial

SECONDS_PER_HOUR = 3600
MILLION = 1e6


@dataclass(frozen=True)
class Savings:
    """Dollars saved by training faster."""

    per_run_usd: float
    per_year_usd: float


@dataclass(frozen=True)
class WholeRun(Document):
    """A run from its first sample to its last."""

    hours: float
    """How long it takes."""
    hours_interval: tuple[float, float] | None
    """The range that should contain the true hours; null if the speed was measured."""
    usd: float | None
    """What it costs; null if the price is unknown."""


def whole_run(usage: Usage, trial: Trial | None, price: Price | None) -> WholeRun | None:
    """Returns a run at a trial's speed; ``None`` if the speed is unknown, or how much the run trains on."""
    if trial is None or not trial.samples_per_second or not usage.has_run:
        return None
    samples = usage.samples or (usage.tokens or 0) / (trial.tokens_per_sample or 1)

    def hours(samples_per_second: float) -> float:
        return samples / samples_per_second / SECONDS_PER_HOUR

    between = (trial.intervals or {}).get("samples_per_second")
    taken = hours(trial.samples_per_second)
    return WholeRun(
        hours=taken,
        hours_interval=(hours(between[1]), hours(between[0])) if between else None,
        usd=price.usd_per_hour * taken if price else None,
    )


def with_hours_of_run(usage: Usage, today: Trial | None) -> Usage:
    """Returns the usage with the hours that a run takes at today's speed, if it says how much a run trains on."""
    run = whole_run(usage, today, None)
    return usage if run is None else replace(usage, hours_per_run=min(run.hours, LARGEST_AMOUNT))


def savings(usd_per_hour: float, usage: Usage, speedup: float) -> Savings:
    """Returns the savings of a speedup: a run that is ``speedup`` times faster pays for 1/speedup of its hours."""
    per_run = usd_per_hour * usage.hours_per_run * (1 - 1 / speedup)
    return Savings(per_run, per_run * usage.runs_per_year * usage.people)


def usd_per_million_samples(usd_per_hour: float, samples_per_second: float) -> float:
    """Returns the cost of a million samples: the hours they take times the price."""
    return usd_per_hour / SECONDS_PER_HOUR / samples_per_second * MILLION
