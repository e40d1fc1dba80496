"""Finds the largest batch that trains, in as few trials as it can. Pure Python, no torch.

Peak memory is close to ``a + b x batch`` once activations outgrow gradients. A few small trials give a and b, a
jump lands near the answer, and short strides close in until one size has been seen to fit and the next to fail.
Whatever the memory curve really looks like, the answer is a size that ran; where fitting is monotone, it is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from memorymark.trial import Trial

FIRST_BATCH = 4
# Before the jump, trials at these parts of the guess: far enough apart for a good slope, small enough to be quick.
LADDER = (0.08, 0.2)
# Fragmentation keeps the allocator from filling the last percents; seen on an H200: 97.9 to 99.1 %.
USABLE_FRACTION = 0.985
# The first stride after the jump, as a part of the size: about what the jump misses by.
STRIDE_FRACTION = 0.004
NO_LIMIT = 2**31 - 1


@dataclass
class SearchResult:
    """``maximum`` was run and fits; 0 means that not even one sample does.

    ``exact`` says that the next size was run and failed; otherwise the caller's limit ended the search.
    """

    maximum: int
    exact: bool
    trials: list[Trial] = field(default_factory=list)

    @property
    def blocker(self) -> Trial | None:
        """The trial at the next size, which failed."""
        return next((t for t in self.trials if t.batch_size == self.maximum + 1 and not t.fits), None)


def find_maximum(
    run: Callable[[int], Trial],
    capacity_bytes: int,
    *,
    fixed_bytes: int = 0,
    limit: int = NO_LIMIT,
    first: int = FIRST_BATCH,
) -> SearchResult:
    """The largest size up to ``limit`` for which ``run`` says that it fits.

    ``capacity_bytes`` and ``fixed_bytes`` (what the model takes without a batch) only steer the guesses.
    """
    search = _Search(capacity_bytes, fixed_bytes, limit + 1)
    size = min(first, limit)
    trials = []
    while search.open:
        trial = run(size)
        trials.append(trial)
        search.learn(trial)
        size = search.next_size()
    exact = any(t.batch_size == search.low + 1 and not t.fits for t in trials)
    return SearchResult(search.low, exact, trials)


def size_within(trials: list[Trial], memory_bytes: float, fixed_bytes: int) -> int:
    """The largest size that should keep within ``memory_bytes``, by the fitting trials seen; not a promise."""
    search = _Search(int(memory_bytes), fixed_bytes, NO_LIMIT)
    for trial in sorted((t for t in trials if t.fits), key=lambda t: t.batch_size):
        search.learn(trial)
    return max(search.guess(), 1)


class _Search:
    """What is known so far: ``low`` fits, ``high`` failed (or is one past the limit)."""

    def __init__(self, capacity_bytes: int, fixed_bytes: int, high: int) -> None:
        self.low, self.high = 0, high
        self._capacity_bytes, self._fixed_bytes = capacity_bytes, fixed_bytes
        self._fitting: list[Trial] = []
        self._last_fits = False
        self._stride = 0
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
        rung = len(self._fitting) - 1
        if not self._fitting:
            size = self.high // 2
        elif self._stride:
            size = self._closer()
        elif rung < len(LADDER) and not self._seen_failure and self.low < LADDER[rung] * self.guess():
            size = round(LADDER[rung] * self.guess())
        else:
            size = self.guess()
            self._stride = max(1, round(size * STRIDE_FRACTION))
        return min(max(size, self.low + 1), self.high - 1)

    def _closer(self) -> int:
        """A stride from the last trial towards the answer, twice as long each time, never past the middle."""
        stride, self._stride = self._stride, 2 * self._stride
        middle = (self.low + self.high) // 2
        if not self._last_fits:
            return max(self.high - stride, middle)
        # Past the ceiling the tensors alone would exceed the capacity: one more than it is worth trying, no more.
        a, b = self._line()
        ceiling = max(int((self._capacity_bytes - a) / b), self.low + 1) if b > 0 else self.high
        return min(max(self.low + stride, self.guess()), ceiling, middle)

    def guess(self) -> int:
        """Where the line through the last two fitting trials meets what the allocator can really use."""
        a, b = self._line()
        return int((USABLE_FRACTION * self._capacity_bytes - a) / b) if b > 0 else 2 * self.low

    def _line(self) -> tuple[float, float]:
        """Intercept and bytes per sample."""
        last = self._fitting[-1]
        # The first trial is so small that gradients, which do not grow with the batch, may have made its peak.
        before = self._fitting[-2] if len(self._fitting) > 2 else None
        before_size, before_bytes = (before.batch_size, before.growing_peak_bytes) if before else (0, self._fixed_bytes)
        b = (last.growing_peak_bytes - before_bytes) / (last.batch_size - before_size)
        return last.growing_peak_bytes - b * last.batch_size, b
