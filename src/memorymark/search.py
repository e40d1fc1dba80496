"""Finds the largest batch that trains, in as few trials as it can. Pure Python, no torch.

A small trial or two tell enough to jump near the answer: by the probe's own forecast if it has one, else by a line, for
peak memory is close to ``a + b x batch`` once activations outgrow gradients. Short strides then close in until one
size has been seen to fit and the next to fail. Whatever the memory curve really looks like, the answer is a size that
ran; where fitting is monotone, it is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from memorymark.trial import Trial
from memorymark.units import GIB

# One sample more than the smallest batch, which batch norm over single values refuses. So small a first step also
# lets the optimizer's state settle densely, not scattered over blocks that activations have left behind.
FIRST_BATCH = 2
# Before the jump, trials at these parts of the guess: far enough apart for a good slope, small enough to be quick.
LADDER = (0.17, 0.32)
# What fragmentation keeps the allocator from using at the edge: a part of the capacity that shrinks as it grows.
# Seen on an H200: 170 to 440 MiB of 21.7 GiB, 900 MiB of 139 GiB.
UNUSABLE_FRACTION_SMALL = 0.016
UNUSABLE_FRACTION_LARGE = 0.0045
UNUSABLE_BYTES_LARGE = GIB // 4
# The first stride after the jump, as a part of the size: about what the jump misses by.
STRIDE_FRACTION = 0.004
# Beyond this part of itself, a forecast that is too low is given up.
FORECAST_MISSES_BY = 0.02
# Two trials make a line only if the smaller is at most this part of the larger.
APART = 0.6
# To tell an edge from an island, so many sizes are looked at in this part below it.
LOOKS, NEAR = 4, 0.05
NO_LIMIT = 2**31 - 1
# Where asking costs little, larger sizes than this are not asked about: the memory does not grow with the batch.
MAX_BATCH = 2**24


class Guide(Protocol):
    """Knows more of the memory than the trials' peaks say."""

    def forecast(self) -> int | None:
        """The largest batch that should fit, by what the trials so far have shown; ``None`` if that cannot be said."""

    def second_batch(self) -> int | None:
        """After one trial, the size of another that would allow a forecast; ``None`` leaves it to the search."""


@dataclass
class SearchResult:
    """``maximum`` was run and fits; 0 means that not even one sample does.

    If it is not ``exact``, the caller's limit ended the search.
    """

    maximum: int
    trials: list[Trial]

    @property
    def exact(self) -> bool:
        """Whether the next size was run and failed."""
        return self.blocker is not None

    @property
    def blocker(self) -> Trial | None:
        """The trial at the next size, which failed."""
        return next((t for t in self.trials if t.batch_size == self.maximum + 1 and not t.fits), None)


def find_maximum(
    run: Callable[[int], Trial],
    capacity_bytes: int,
    *,
    guide: Guide | None = None,
    limit: int = NO_LIMIT,
    from_start: Callable[[int], Trial] | None = None,
) -> SearchResult:
    """The largest size up to ``limit`` for which ``run`` says that it fits.

    ``capacity_bytes`` and ``guide`` only steer the guesses; whether a size fits is for ``run`` to say. Where there is
    ``from_start``, it has the last word: it runs a size as a training does that starts with it, whose memory then lies
    in other pieces than after the small first step of a search. From what was found it goes up or down.
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
    """The largest size that should keep within ``memory_bytes``, judged by the trials that fit; not a promise."""
    search = _Search(int(memory_bytes), NO_LIMIT)
    for trial in sorted((t for t in trials if t.fits), key=lambda t: t.batch_size):
        search.learn(trial)
    return max(search.guess(), 1)


def usable_bytes(capacity_bytes: int) -> float:
    """What fragmentation usually lets the allocator use of a capacity."""
    return capacity_bytes - min(
        UNUSABLE_FRACTION_SMALL * capacity_bytes, UNUSABLE_FRACTION_LARGE * capacity_bytes + UNUSABLE_BYTES_LARGE
    )


def largest_that(fits: Callable[[int], bool], start: int, limit: int, *, stride: int = 0) -> int:
    """The largest size for which ``fits`` by doubling and bisection, where asking costs little; 0 if there is none.

    Where ``start`` is a good guess, ``stride`` is about what it misses by. Where sizes fit and fail by turns, one that
    fits where none fits for a while below it is no answer, unless there is no other.
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
    """What is known so far: ``low`` fits, ``high`` failed (or is one past the limit)."""

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
            # One more: if that fails, the forecast itself ends the search, and if it fits, the forecast need not run.
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
        """A stride from the last trial towards the answer, never past the middle.

        Each is twice as long as the last, but the one after a forecast was tried, which mostly misses by one or two.
        """
        stride = self._stride
        if self._single_strides:
            self._single_strides -= 1
        else:
            self._stride = max(2 * stride, round(max(self.low, self._forecast_size) * STRIDE_FRACTION))
        middle = (self.low + self.high) // 2
        if not self._last_fits:
            return max(self.high - stride, middle)
        # Past the ceiling the tensors alone would exceed the capacity. Where even the ceiling fits, the line or the
        # capacity is wrong: from there on, each surprise doubles the next stride.
        if self.low < self._ceiling:
            self._ceiling = self._meets(self._capacity_bytes)
        if self.low >= self._ceiling:
            self._surprise *= 2
            return min(self.low + self._surprise // 2, middle)
        reach = self.low + stride
        if self.low > (1 + FORECAST_MISSES_BY) * self._forecast_size:  # there was none, or it is of no use
            reach = max(reach, self.guess())
        return min(reach, self._ceiling, middle)

    def guess(self) -> int:
        """The size at which the peak meets what the allocator can really use."""
        return self._meets(usable_bytes(self._capacity_bytes))

    def _meets(self, memory_bytes: float) -> int:
        """Where the line through the largest fitting trial and one well below it reaches ``memory_bytes``."""
        last = self._fitting[-1]
        size, peak = last.batch_size, _growing_peak_bytes(last)
        # Neighbours would give a slope of noise, and the first trial is so small that gradients, which do not grow
        # with the batch, made its peak.
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
    """The peak of what grows with the batch; the optimizer's does not."""
    return max(trial.forward_peak_bytes, trial.backward_peak_bytes)
