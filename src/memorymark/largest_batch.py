"""Finds the largest batch that trains, in as few trials as possible. Pure Python, no torch.

One or two small trials are enough to jump near the answer: by the probe's own forecast if it has one, else by a line,
since peak memory is close to ``a + b x batch`` once activations outgrow gradients. Short strides then close in until
one size fits and the next fails. Whatever the memory curve looks like, the answer is a size that ran; if fitting is
monotone in the batch size, the answer is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from memorymark.question.limits import NO_LIMIT
from memorymark.results.trial import Trial
from memorymark.units import GIB

# One sample more than the smallest batch, since batch norm raises on single values. A first step this small also
# places the optimizer's state densely, not scattered over blocks that activations have freed.
FIRST_BATCH = 2
# Before the jump, trials run at these fractions of the guess: far enough apart for a good slope, and small enough to
# be quick.
LADDER = (0.17, 0.32)
# The fraction of the capacity that the allocator loses to fragmentation at the edge; it shrinks as the capacity grows.
# Measured on an H200: 170 to 440 MiB of 21.7 GiB, 900 MiB of 139 GiB.
UNUSABLE_FRACTION_SMALL = 0.016
UNUSABLE_FRACTION_LARGE = 0.0045
UNUSABLE_BYTES_LARGE = GIB // 4
# The first stride after the jump, as a fraction of the size: about as much as the jump is off.
STRIDE_FRACTION = 0.004
# A forecast that turns out too low by more than this fraction is dropped.
FORECAST_MISSES_BY = 0.02
# Two trials define a line only if the smaller batch is at most this fraction of the larger.
APART = 0.6
# To tell an edge from an island, this many sizes are checked, within this fraction below it.
LOOKS, NEAR = 4, 0.05
# The largest size to check when checking is cheap: if this fits, memory does not grow with the batch.
MAX_BATCH = 2**24


class Guide(Protocol):
    """Knows more about the memory than the peaks of the trials show."""

    def forecast(self) -> int | None:
        """Returns the largest batch that should fit, judging by the trials so far, or ``None`` if it cannot tell."""

    def second_batch(self) -> int | None:
        """Returns the size of a second trial that would allow a forecast, or ``None`` to let the search choose."""


@dataclass
class SearchResult:
    """The result of a search: ``maximum`` ran and fits; 0 means that not even one sample does.

    If it is not ``exact``, the caller's limit ended the search.
    """

    maximum: int
    trials: list[Trial]

    @property
    def exact(self) -> bool:
        """Whether the next larger size ran and failed."""
        return self.blocker is not None

    @property
    def blocker(self) -> Trial | None:
        """The failed trial at the next larger size, or ``None``."""
        return next((t for t in self.trials if t.batch_size == self.maximum + 1 and not t.fits), None)


def find_maximum(
    run: Callable[[int], Trial],
    capacity_bytes: int,
    *,
    guide: Guide | None = None,
    limit: int = NO_LIMIT,
    from_start: Callable[[int], Trial] | None = None,
) -> SearchResult:
    """Finds the largest size up to ``limit`` that fits, according to ``run``.

    ``capacity_bytes`` and ``guide`` only steer the guesses; ``run`` decides whether a size fits. ``from_start``, if
    given, has the last word: it runs a size the way a training that starts with it does, which lays out memory
    differently than the small first step of a search. It then moves the answer up or down.
    """
    search = _Search(capacity_bytes, limit + 1, guide)
    trials: list[Trial] = []
    while search.open:
        trial = run(search.next_size() if trials else min(FIRST_BATCH, limit))
        trials.append(trial)
        search.learn(trial)
    if from_start is None or search.low == 0:
        return SearchResult(search.low, trials)

    def fits(batch_size: int) -> bool:
        trials.append(from_start(batch_size))
        return trials[-1].fits

    return SearchResult(_edge(fits, search.low, limit + 1, stride=1), trials)


def size_within(trials: list[Trial], memory_bytes: float) -> int:
    """Estimates the largest size that stays within ``memory_bytes``, from the trials that fit."""
    search = _Search(int(memory_bytes), NO_LIMIT)
    for trial in sorted((t for t in trials if t.fits), key=lambda t: t.batch_size):
        search.learn(trial)
    return max(search.guess(), 1)


def usable_bytes(capacity_bytes: int) -> float:
    """Returns how much of a capacity the allocator can usually use despite fragmentation."""
    return capacity_bytes - min(
        UNUSABLE_FRACTION_SMALL * capacity_bytes, UNUSABLE_FRACTION_LARGE * capacity_bytes + UNUSABLE_BYTES_LARGE
    )


def largest_that(fits: Callable[[int], bool], start: int, limit: int, *, stride: int = 0) -> int:
    """Finds the largest size that ``fits`` by doubling and bisection, or 0; for checks that are cheap.

    If ``start`` is a good guess, ``stride`` is about how far off it may be. Where sizes fit and fail by turns, a size
    with no fitting sizes just below it is an island and is skipped, unless nothing else fits.
    """
    end, largest = limit + 1, 0
    start = max(start, 1)
    while True:
        size = _edge(fits, start, end, stride or start)
        largest = largest or size
        if size == 0:
            return largest
        below = [size - max(look, round(size * NEAR * look / LOOKS)) for look in range(1, LOOKS + 1)]
        if below[-1] < 1 or any(map(fits, below)):
            return size
        end = below[-1]


def _edge(fits: Callable[[int], bool], start: int, end: int, stride: int) -> int:
    low, high, size = 0, end, min(start, end - 1)
    while high - low > 1:
        if fits(size):
            low, size = size, size + stride
        else:
            high, size = size, size - stride
        stride *= 2
        if not low < size < high:
            size = (low + high) // 2
    return low


class _Search:
    """The state of a search: ``low`` fits, ``high`` failed (or is one past the limit)."""

    def __init__(self, capacity_bytes: int, high: int, guide: Guide | None = None) -> None:
        self.low, self.high = 0, high
        self._capacity_bytes, self._guide = capacity_bytes, guide
        self._forecast_size = 0
        self._fitting: list[Trial] = []
        self._last_fits = False
        self._stride = self._single_strides = 0
        self._ceiling, self._surprise = high, 1
        self._seen_failure = False

    @property
    def open(self) -> bool:
        return self.high - self.low > 1

    def learn(self, trial: Trial) -> None:
        self._last_fits = trial.fits
        if trial.fits:
            self.low = trial.batch_size
            self._fitting.append(trial)
        else:
            self.high = trial.batch_size
            self._seen_failure = True

    def next_size(self) -> int:
        if not self._fitting:
            size = self.high // 2
        elif self._stride:
            size = self._closer()
        elif (forecast := self._asked_forecast()) is not None:
            # Try one more than the forecast first: if it fits, the forecast itself need not run; if it fails, running
            # the forecast ends the search.
            size, self._forecast_size = forecast + 1, forecast
            self._stride, self._single_strides = 1, 1
        elif len(self._fitting) <= len(LADDER) and not self._seen_failure:
            size = self._asked_second() or self._rung()
        else:
            size = self.guess()
            self._stride = max(1, round(size * STRIDE_FRACTION))
        return min(max(size, self.low + 1), self.high - 1)

    def _asked_forecast(self) -> int | None:
        forecast = self._guide.forecast() if self._guide else None
        return forecast if forecast is None or forecast >= self.low else None

    def _asked_second(self) -> int | None:
        return self._guide.second_batch() if self._guide and len(self._fitting) == 1 else None

    def _rung(self) -> int:
        return min(max(round(LADDER[len(self._fitting) - 1] * self.guess()), 2 * self.low), self.guess())

    def _closer(self) -> int:
        """Takes a stride from the last trial towards the answer, never past the middle.

        Each stride is twice as long as the last, except the first after a forecast, which is mostly off by one or two.
        """
        stride = self._stride
        if self._single_strides:
            self._single_strides -= 1
        else:
            self._stride = max(2 * stride, round(max(self.low, self._forecast_size) * STRIDE_FRACTION))
        middle = (self.low + self.high) // 2
        if not self._last_fits:
            return max(self.high - stride, middle)
        # Past the ceiling the tensors alone would exceed the capacity. If even the ceiling fits, the line or the
        # capacity is wrong; from there on, each size that fits doubles the next stride.
        if self.low < self._ceiling:
            self._ceiling = self._meets(self._capacity_bytes)
        if self.low >= self._ceiling:
            self._surprise *= 2
            return min(self.low + self._surprise // 2, middle)
        reach = self.low + stride
        if self.low > (1 + FORECAST_MISSES_BY) * self._forecast_size:  # no forecast, or a bad one
            reach = max(reach, self.guess())
        return min(reach, self._ceiling, middle)

    def guess(self) -> int:
        """Returns the size at which the peak reaches what the allocator can really use."""
        return self._meets(usable_bytes(self._capacity_bytes))

    def _meets(self, memory_bytes: float) -> int:
        """Returns where the line through the largest fitting trial and one well below it reaches ``memory_bytes``."""
        last = self._fitting[-1]
        size, peak = last.batch_size, _growing_peak_bytes(last)
        # The slope between neighbours is mostly noise, and the first trial is so small that its peak comes from
        # gradients, which do not grow with the batch.
        below = [trial for trial in self._fitting[1:] if trial.batch_size <= APART * size]
        if below:
            size_before, peak_before = below[-1].batch_size, _growing_peak_bytes(below[-1])
        else:
            size_before, peak_before = 0, last.resting_bytes
        if len(self._fitting) == 1:
            peak = last.forward_peak_bytes
        bytes_per_sample = (peak - peak_before) / (size - size_before)
        return int(size + (memory_bytes - peak) / bytes_per_sample) if bytes_per_sample > 0 else 2 * size


def _growing_peak_bytes(trial: Trial) -> int:
    """Returns the peak of the passes that grow with the batch; the optimizer's does not."""
    return max(trial.forward_peak_bytes, trial.backward_peak_bytes)
