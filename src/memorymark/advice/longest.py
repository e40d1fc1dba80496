"""Finds the longest sequence that a recipe trains at batch 1."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from memorymark.advice.inquiry import Inquiry
from memorymark.catalog.tasks import LARGEST_SAMPLE
from memorymark.errors import CannotPredictError, UsageError, WorkerError
from memorymark.largest_batch import MAX_BATCH
from memorymark.probe.base import Probe
from memorymark.question.request import Request

# Each length takes a trace.
MOST_LENGTHS = 4
# Batches are simulated, which takes a fraction of a second each.
MOST_BATCHES = 3
SHORTEST_TOKENS = 64
# Lengths are multiples of this; long ones are rounded more coarsely, to a 32nd of their size or more.
MULTIPLE, PARTS = 64, 5


def longest_that_fits(inquiry: Inquiry, request: Request, tokens: int) -> int | None:
    """Returns the longest sequence predicted to leave the margin free at batch 1; ``None`` if none was found.

    ``tokens`` is the length of the request's samples. Memory grows with the length, in proportion or faster, so a few
    trials come close to the limit. The length returned was tried.
    """
    safe_bytes, limit = inquiry.safe_bytes, LARGEST_SAMPLE["tokens"]
    with inquiry.opened(inquiry.screened(request)) as probe:
        if probe.info.source != "predicted":
            return None
        samples = _of_batches(probe, safe_bytes)
    # A batch takes about what one sample does that is as long as all of its samples.
    guess = rounded(_next(safe_bytes, {tokens * size: most for size, most in samples.items()}))
    needed = {tokens: samples[1]}
    for _ in range(MOST_LENGTHS):
        guess = min(guess, limit)
        if guess in needed or guess < SHORTEST_TOKENS:
            break
        try:
            with inquiry.opened(inquiry.screened(replace(request, seq_len=guess))) as probe:
                needed[guess] = _needed(probe, 1)
        except UsageError as error:
            limit = int((error.allowed or {}).get("maximum", 0))
            continue
        except (CannotPredictError, WorkerError):
            break
        guess = rounded(_next(safe_bytes, needed))
    return max((tokens for tokens, most in needed.items() if most <= safe_bytes), default=None)


def rounded(tokens: int) -> int:
    """Rounds a length down to a multiple that people would choose."""
    multiple = max(MULTIPLE, (1 << max(tokens, 1).bit_length() - 1) >> PARTS)
    return tokens // multiple * multiple


def _of_batches(probe: Probe, safe_bytes: float) -> dict[int, float]:
    """Returns what a few batches need, among them those that need about ``safe_bytes``; takes no trace."""
    needed = {size: _needed(probe, size) for size in (1, 2)}
    for _ in range(MOST_BATCHES):
        size = _next(safe_bytes, needed)
        if size in needed or not 1 <= size <= MAX_BATCH:
            break
        needed[size] = _needed(probe, size)
    return needed


def _next(safe_bytes: float, needed: dict[int, float]) -> int:
    """Returns the size that should need ``safe_bytes``, from the two that need about as much; 0 if none does."""
    nearest = sorted(needed.items(), key=lambda one: abs(one[1] - safe_bytes))[:2]
    (low, least), (high, most) = sorted(nearest)
    each = (most - least) / (high - low)
    return int(low + (safe_bytes - least) / each) if 0 < each < inf else 0


def _needed(probe: Probe, batch_size: int) -> float:
    """Returns the bytes that a batch needs, even if it does not fit; infinite if that is unknown."""
    trial = probe.measure(batch_size)
    if trial.fits:
        return trial.peak_reserved_bytes
    if trial.failure is None or trial.failure.requested_bytes is None:
        return inf
    return max(trial.failure.requested_bytes, probe.info.capacity_bytes + 1)
