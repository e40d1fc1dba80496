"""Picks the batch size worth using from timed trials, and finds those that thrash. Pure Python, no torch."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from memorymark.results.trial import Trial

# The recommended batch must stay within 5 % of the best throughput when measured again, and repeated measurements
# differ by 1 to 2 %. Above this threshold, a smaller batch is as good as a larger one.
GOOD_ENOUGH = 0.97
# Predicted curves flatten a little earlier than measured ones, so predictions must come closer to the best.
GOOD_ENOUGH_PREDICTED = 0.985
# Time per sample that grows by this factor from one size to a larger one means that the allocator thrashes.
TIME_JUMP = 1.25


def recommend(trials: Iterable[Trial], safe_bytes: float, largest: float = inf) -> Trial | None:
    """Returns the smallest size within 5 % of the best throughput that stays within ``safe_bytes`` and does not thrash.

    Sizes above ``largest`` are never recommended, because they are not certain to fit.
    """
    timed = [trial for trial in trials if trial.fits and trial.samples_per_second]
    thrashing = thrashing_sizes(timed)
    certain = [t for t in timed if t.batch_size <= largest]
    usable = [t for t in certain if t.peak_reserved_bytes <= safe_bytes and t.batch_size not in thrashing]
    best = max((trial.samples_per_second or 0.0 for trial in timed if trial.batch_size not in thrashing), default=0.0)
    good = [trial for trial in usable if (trial.samples_per_second or 0.0) >= _good_enough(trial) * best]
    if good:
        return min(good, key=lambda trial: trial.batch_size)
    # Only sizes beyond the margin are that fast, so the fastest of the safe ones is the one worth using.
    return max(usable, key=lambda trial: trial.samples_per_second or 0.0, default=None)


def thrashing_sizes(trials: Iterable[Trial]) -> set[int]:
    """Returns sizes at which the allocator retries at every step, or time per sample jumps over a smaller size's."""
    thrashing = set()
    fastest = float("inf")
    for trial in sorted(trials, key=lambda trial: trial.batch_size):
        if not trial.fits or not trial.samples_per_second:
            continue
        seconds_per_sample = 1 / trial.samples_per_second
        if trial.allocator_retries > 0 or seconds_per_sample > TIME_JUMP * fastest:
            thrashing.add(trial.batch_size)
        else:
            fastest = min(fastest, seconds_per_sample)
    return thrashing


def fast_enough(trials: Iterable[Trial]) -> list[Trial]:
    """Returns the trials whose throughput is about as good as the best."""
    fitting = [trial for trial in trials if trial.fits]
    best = max((trial.samples_per_second or 0.0 for trial in fitting), default=0.0)
    return [trial for trial in fitting if (trial.samples_per_second or 0.0) >= _good_enough(trial) * best]


def _good_enough(trial: Trial) -> float:
    return GOOD_ENOUGH if trial.source == "measured" else GOOD_ENOUGH_PREDICTED
