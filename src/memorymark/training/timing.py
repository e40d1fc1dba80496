"""Reliable step times: steps are timed until steady, then summed up as a median and its spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

WINDOW_STEPS = 4
STEADY_CHANGE = 0.05
MAX_STEPS = 40
MAX_SECONDS = 20.0


@dataclass(frozen=True)
class StepTime:
    """Median seconds of a step, and the spread: the interquartile range over the median."""

    seconds: float
    spread: float


def time_until_steady(time_steps: Callable[[int], list[float]]) -> StepTime:
    """Times windows of steps until the median of one moves less than 5 % against the one before.

    ``time_steps(n)`` runs n steps and returns the seconds of each. Slow drift (clocks, autotuning, a warming
    allocator) shows as one window differing from the next. The result comes from the last two windows if they agree,
    or from the last one if time ran out before.
    """
    windows: list[list[float]] = [time_steps(WINDOW_STEPS)]
    while True:
        windows.append(time_steps(WINDOW_STEPS))
        earlier, later = median(windows[-2]), median(windows[-1])
        steady = abs(later - earlier) < STEADY_CHANGE * earlier
        if steady or WINDOW_STEPS * len(windows) >= MAX_STEPS or sum(map(sum, windows)) > MAX_SECONDS:
            break
    seconds = windows[-2] + windows[-1] if steady else windows[-1]
    low, middle, high = quantiles(seconds, n=4)
    return StepTime(middle, (high - low) / middle)
