"""Throughput for people: tables show text in tokens per second and other samples in samples per second.

Sentences give both for text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from memorymark.results.cost import WholeRun
from memorymark.results.trial import Counted, Trial
from memorymark.units import format_rate, format_usd

HOURS_PER_DAY = 24


def counted_in(trials: Iterable[Trial | None]) -> Counted:
    """Returns what a table counts in the speed of trials."""
    return next((trial.rate_counts for trial in trials if trial is not None), "samples")


def unit_of(trials: Iterable[Trial | None]) -> str:
    """Returns the unit in which a table shows the speed of trials."""
    return f"{counted_in(trials)}/s"


def rate(trial: Trial | None) -> float:
    """Returns the speed of a trial in its unit; 0 if it was not timed."""
    return 0.0 if trial is None else trial.rate


def rate_interval(trial: Trial) -> tuple[float, float] | None:
    """Returns the interval of a predicted speed in the trial's unit."""
    between = (trial.intervals or {}).get("samples_per_second")
    each = trial.tokens_per_sample or 1
    return (between[0] * each, between[1] * each) if between else None


def speed_words(trial: Trial, within: str = "") -> str:
    """Returns the speed of a trial: ``23.1 samples/s``, or ``11,827 tokens/s, 23.1 samples/s``.

    ``within`` says how far off it may be.
    """
    words = f"{format_rate(trial.rate)} {trial.rate_unit}{within}"
    samples = trial.samples_per_second or 0.0
    return f"{words}, {format_rate(samples)} samples/s" if trial.tokens_per_sample else words


def hours_words(hours: float) -> str:
    """Returns a duration: ``12.3 min``, ``5.20 h``, ``3.41 days``."""
    if hours < 1:
        return f"{format_rate(60 * hours)} min"
    return f"{format_rate(hours)} h" if hours < 2 * HOURS_PER_DAY else f"{format_rate(hours / HOURS_PER_DAY)} days"


def run_words(run: WholeRun) -> str:
    """Returns how long a whole run takes and what it costs: ``5.20 h (4.00 h to 6.76 h), $10.40``."""
    ends = run.hours_interval
    between = f" ({hours_words(ends[0])} to {hours_words(ends[1])})" if ends else ""
    return f"{hours_words(run.hours)}{between}" + (f", ${format_usd(run.usd)}" if run.usd is not None else "")


def short_run_words(run: WholeRun) -> str:
    """Returns the same without the interval, for a table."""
    return run_words(replace(run, hours_interval=None))
