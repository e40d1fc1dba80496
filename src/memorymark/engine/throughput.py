"""Chooses the batch sizes to time, so that the one worth using is among them. Pure Python, no torch."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf

from memorymark.results.recommendation import fast_enough, thrashing_sizes
from memorymark.results.trial import Trial

# Powers of two above this fraction of the largest safe size would show nothing new.
CLEARLY_BELOW = 0.85
# How often the largest size within the margin is guessed: reserved memory grows in leaps.
GUESSES = 4


def measure_curve(
    measure: Callable[[int], Trial], maximum: int, current: int, safe_size: int, safe_bytes: float = inf
) -> list[Trial]:
    """Measures today's size, the largest, the largest with a margin, powers of two below, and near the bend.

    Starts with the largest; a size at the limit may fail now, and then a smaller one takes its place. ``safe_size`` is
    a guess of the largest size within ``safe_bytes``. If it takes more, and no size within ``safe_bytes`` is fast
    enough, smaller sizes follow.
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
    if not any(trial.peak_reserved_bytes <= safe_bytes for trial in fast_enough(trials.values())):
        _step_down_to(safe_bytes, at, safe_size)
    for size in thrashing_sizes(trials.values()):
        if not trials[size].allocator_retries:  # slow, but why? A busy machine is slow once, a thrashing one again
            trials[size] = measure(size)
    return sorted(trials.values(), key=lambda trial: trial.batch_size)


def _step_down_to(safe_bytes: float, at: Callable[[int], Trial], size: int) -> None:
    """Steps down from a size that takes more than ``safe_bytes``, by the excess in samples and further each time."""
    for further in range(GUESSES):
        over = at(size).peak_reserved_bytes / safe_bytes - 1
        if over <= 0:
            return
        size = max(size - ceil(over * size) - further, 1)


def _bend(trials: list[Trial]) -> int | None:
    """Returns a size between the largest too slow and the smallest fast enough, or None if none is left."""
    fast = [trial.batch_size for trial in fast_enough(trials)]
    slow = [t.batch_size for t in trials if fast and t.batch_size < min(fast)]
    if not slow or min(fast) - max(slow) < 2:
        return None
    return (max(slow) + min(fast)) // 2


def _largest_fitting(at: Callable[[int], Trial], maximum: int) -> int:
    """Returns the largest size that fits: steps down from ``maximum`` in doubling strides, then bisects."""
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
