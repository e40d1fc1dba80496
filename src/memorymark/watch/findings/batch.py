"""Room for a larger batch, or a GPU that waits for the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memorymark.advice.screening import split
from memorymark.units import format_bytes
from memorymark.watch import code as changes
from memorymark.watch.findings.base import MEMORY_USED, WAITING_COUNTS, WAITING_RULES, Estimate, Finding, gained
from memorymark.watch.gains import BUSY, Gain, Gains
from memorymark.watch.observation import Observation

# From this fraction of its power on a busy GPU counts as saturated.
POWER = 0.75
LARGER_BATCH_COUNTS = 1.3
# A larger batch that is predicted to gain less than this is not worth its effect on the optimization.
LEAST_GAIN = 1.02


@dataclass(frozen=True)
class _Larger:
    """A batch that is clearly larger, its accumulation steps, and the largest that should fit."""

    size: int
    accumulate: int
    maximum: int


def batch(seen: Observation, estimate: Estimate | None, gains: Gains) -> Iterator[Finding]:
    """Finds that the GPU has room for a larger batch, or too little to do."""
    memory, device, today = seen.memory, seen.device, seen.batch_size
    if memory is None or device is None or not device.capacity_bytes or not today:
        return
    larger = _larger(seen, today, estimate)
    if larger is None:
        if _is_idle(seen) and seen.model is not None and not seen.model.compiled:
            yield _host(seen, gains)
        return
    held = memory.peak_reserved_bytes
    if seen.peaked_outside_steps:
        held = seen.training_peak_allocated_bytes or held
    used = held / device.capacity_bytes
    if not _is_busy(seen) and used < MEMORY_USED and (seen.lost or 0.0) < WAITING_RULES:
        room = f"{format_bytes(held)} of {format_bytes(device.capacity_bytes)} are used"
        gain = gains.batch(larger.size, larger.accumulate)
        if gain.speedup >= LEAST_GAIN:
            yield _larger_batch(seen, today, larger, used, room, gain)


def _larger(seen: Observation, today: int, estimate: Estimate | None) -> _Larger | None:
    """Returns a larger batch; a training that accumulates keeps its effective batch, give or take a few samples."""
    if estimate is None:
        return None
    effective = today * seen.micro_batches
    most = estimate.recommended if seen.micro_batches == 1 else min(estimate.recommended, effective)
    size, accumulate = split(effective, most)
    return _Larger(size, accumulate, estimate.maximum) if size >= LARGER_BATCH_COUNTS * today else None


def _host(seen: Observation, gains: Gains) -> Finding:
    """Returns the finding that Python is too slow for the GPU."""
    return Finding(
        kind="host",
        headline="The GPU waits for the host, which launches kernels too slowly",
        title="Compile the model",
        reason=f"{_load(seen)}, though data is there",
        code=changes.compiled(seen),
        note="Calls that wait for the GPU in every step, such as loss.item(), have the same effect.",
        **gained(gains.without_idling()),
    )


def _larger_batch(seen: Observation, today: int, larger: _Larger, used: float, room: str, gain: Gain) -> Finding:
    """Returns the finding that memory is left over."""
    load = _load(seen)
    return Finding(
        kind="batch",
        headline=f"{100 * (1 - used):.0f} % of the memory is never used: a batch of about {larger.size} fits",
        title=f"Use a larger batch: about {larger.size} instead of {today}",
        reason=(
            f"{room} ({100 * used:.0f} %){', ' + load if seen.busy is not None else ''}; at most about "
            f"{larger.maximum} should fit"
        ),
        code=changes.batch(seen, larger.size, accumulate=larger.accumulate),
        note=_effective_batch_note(seen, today, larger),
        **gained(gain),
    )


def _effective_batch_note(seen: Observation, today: int, larger: _Larger) -> str:
    """Returns what the change means for the optimization."""
    before, after = today * seen.micro_batches, larger.size * larger.accumulate
    if seen.micro_batches == 1:
        return (
            "Speed flattens out before the memory is full: double the batch until samples/s stops growing. The "
            "effective batch grows too: raise the learning rate (by the square root for Adam), and watch the loss."
        )
    if after == before:
        return f"The effective batch stays {after}, so nothing else changes."
    return f"The effective batch becomes {after} instead of {before}, so little else changes."


def _is_idle(seen: Observation) -> bool:
    """Tells whether the GPU has too little to do although it has data."""
    return seen.busy is not None and seen.busy < BUSY and (seen.lost or 0.0) < WAITING_COUNTS


def _is_busy(seen: Observation) -> bool:
    return seen.busy is not None and seen.busy >= BUSY and seen.power is not None and seen.power >= POWER


def _load(seen: Observation) -> str:
    busy = "" if seen.busy is None else f"the GPU is busy {100 * seen.busy:.0f} % of the time"
    power = "" if seen.power is None else f" at {100 * seen.power:.0f} % of its power"
    return f"{busy}{power}"
