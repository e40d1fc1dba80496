"""Which sizes to time, and which of them is worth using. Pure Python, no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, inf

from memorymark.trial import Trial

# What is recommended must be within 5 % of the best throughput also when it is measured again, which differs by 1 to
# 2 %; from there on, a smaller batch is as good as a larger one.
GOOD_ENOUGH = 0.97
# Predicted curves bend a little earlier than true ones, so there the batch must come closer to the best.
GOOD_ENOUGH_PREDICTED = 0.985
# Powers of two above this part of the largest safe size would only tell the same again.
CLEARLY_BELOW = 0.85
# Time per sample that grows by this factor from one size to a larger one means that the allocator thrashes.
TIME_JUMP = 1.25
# So many guesses at the largest size with a margin: reserved memory grows by leaps.
GUESSES = 4


def measure_curve(
    measure: Callable[[int], Trial], maximum: int, current: int, safe_size: int, safe_bytes: float = inf
) -> list[Trial]:
    """Measures today's size, the largest, the largest with a margin, powers of two below, and near the bend.

    Starts with the largest: if it fails now, because the edge can be blurred, a smaller one takes its place.
    ``safe_size`` is a guess of the largest that keeps to ``safe_bytes``; where it does not, and none that does is fast
    enough, smaller ones follow.
    """
    trials: dict[int, Trial] = {}

    def at(size: int) -> Trial:
        if size not in trials:
            trials[size] = measure(size)
        return trials[size]

    maximum = _largest_fitting(at, maximum)
    safe_size = min(max(safe_size, 1), maximum)
    sizes = [2**n for n in range(3, maximum.bit_length()) if 2**n < CLEARLY_BELOW * safe_size]
    sizes = sizes or list(range(1, min(maximum, 2**3)))
    for size in sorted({current, safe_size, *sizes}, reverse=True):
        if size <= maximum:
            at(size)
    bend = _bend([trial for trial in trials.values() if trial.fits])
    if bend is not None:
        at(bend)
    if not any(trial.peak_reserved_bytes <= safe_bytes for trial in _fast_enough(trials.values())):
        _step_down_to(safe_bytes, at, safe_size)
    for size in thrashing_sizes(trials.values()):
        if not trials[size].allocator_retries:  # slow, but why? A busy machine is slow once, a thrashing one again
            trials[size] = measure(size)
    return sorted(trials.values(), key=lambda trial: trial.batch_size)


def _step_down_to(safe_bytes: float, at: Callable[[int], Trial], size: int) -> None:
    """Goes down from a size that takes more, by the samples that it is over, and further each time."""
    for further in range(GUESSES):
        over = at(size).peak_reserved_bytes / safe_bytes - 1
        if over <= 0:
            return
        size = max(size - ceil(over * size) - further, 1)


def _fast_enough(trials: Iterable[Trial]) -> list[Trial]:
    fitting = [trial for trial in trials if trial.fits]
    best = max((trial.samples_per_second or 0.0 for trial in fitting), default=0.0)
    return [trial for trial in fitting if (trial.samples_per_second or 0.0) >= _good_enough(trial) * best]


def _bend(trials: list[Trial]) -> int | None:
    """A size between the largest that is too slow and the smallest that is fast enough, where one is left."""
    fast = [trial.batch_size for trial in _fast_enough(trials)]
    slow = [t.batch_size for t in trials if fast and t.batch_size < min(fast)]
    if not slow or min(fast) - max(slow) < 2:
        return None
    return (max(slow) + min(fast)) // 2


def _good_enough(trial: Trial) -> float:
    return GOOD_ENOUGH if trial.source == "measured" else GOOD_ENOUGH_PREDICTED


def _largest_fitting(at: Callable[[int], Trial], maximum: int) -> int:
    """Goes down from a maximum that may fail now, in doubling strides, and closes in on the edge from below."""
    fails, stride = maximum + 1, 1
    while not at(maximum).fits and maximum > 1:
        fails, maximum, stride = maximum, max(maximum - stride, 1), 2 * stride
    while fails - maximum > 1:
        middle = (maximum + fails) // 2
        if at(middle).fits:
            maximum = middle
        else:
            fails = middle
    return maximum


def recommend(trials: Iterable[Trial], safe_bytes: float, largest: float = inf) -> Trial | None:
    """The smallest size within 5 % of the best throughput that keeps to ``safe_bytes`` and does not thrash.

    ``largest`` is a size above which none is recommended, because it is not certain to fit.
    """
    timed = [trial for trial in trials if trial.fits and trial.samples_per_second]
    thrashing = thrashing_sizes(timed)
    certain = [t for t in timed if t.batch_size <= largest]
    usable = [t for t in certain if t.peak_reserved_bytes <= safe_bytes and t.batch_size not in thrashing]
    best = max((trial.samples_per_second or 0.0 for trial in timed if trial.batch_size not in thrashing), default=0.0)
    good = [trial for trial in usable if (trial.samples_per_second or 0.0) >= _good_enough(trial) * best]
    if good:
        return min(good, key=lambda trial: trial.batch_size)
    # Only sizes beyond the margin are that fast: the fastest of the safe ones is the one worth using.
    return max(usable, key=lambda trial: trial.samples_per_second or 0.0, default=None)


def thrashing_sizes(trials: Iterable[Trial]) -> set[int]:
    """Sizes at which the allocator retries step after step, or time per sample jumps against a smaller size."""
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
