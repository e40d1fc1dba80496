"""How far predictions were off where the truth is known, and so how far a new one may be.

The figures are 95th percentiles of `benchmarks/prediction.py`, over all workloads measured on an NVIDIA H200, rounded
up; that of the time leaves room for another host.
"""

from __future__ import annotations

from math import ceil, floor, inf

from memorymark.catalog import GpuEntry
from memorymark.trial import Trial

ALLOCATED_ERROR = 0.01
RESERVED_ERROR = 0.10
TIME_ERROR = 0.30
MAXIMUM_ERROR = 0.02
# Of the ratio of the speeds at two batch sizes of one training: what both have in common cancels out, how much of a
# small batch's time is the host's does not.
SPEEDUP_ERROR = 0.30
# A GPU on which nothing was measured, and operations that nobody measured, make it less certain.
MEASURED_GPUS = frozenset({"h200"})
ELSEWHERE, UNKNOWN_OPERATIONS = 1.5, 2.0

Interval = tuple[float, float]


def trial_intervals(trial: Trial, gpu: GpuEntry, *, certain: bool, capacity_bytes: int) -> dict[str, Interval]:
    """What the true numbers of a trial that is predicted to fit should lie between; no memory is more than is there."""
    factor = doubt(gpu, certain=certain)
    allocated = _around(trial.peak_allocated_bytes, ALLOCATED_ERROR * factor, capacity_bytes)
    least, most = _around(trial.peak_reserved_bytes, RESERVED_ERROR * factor, capacity_bytes)
    reserved = max(least, allocated[0]), most  # nothing is allocated that is not reserved
    device_most = min(reserved[1] + gpu.context_bytes[2], gpu.torch_memory_bytes)
    intervals = {
        "peak_allocated_bytes": allocated,
        "peak_reserved_bytes": reserved,
        "device_bytes": (reserved[0] + gpu.context_bytes[0], device_most),
    }
    if trial.step_seconds and trial.samples_per_second:
        fastest, slowest = (trial.step_seconds * times for times in time_factors(gpu, certain=certain))
        samples = trial.samples_per_second * trial.step_seconds
        intervals |= {"step_seconds": (fastest, slowest), "samples_per_second": (samples / slowest, samples / fastest)}
    return intervals


def speedup_interval(speedup: float, gpu: GpuEntry | None, *, certain: bool) -> Interval:
    """What the true ratio of two predicted speeds should lie between."""
    factor = doubt(gpu, certain=certain)
    return speedup * (1 - SPEEDUP_ERROR) ** factor, speedup * (1 + SPEEDUP_ERROR) ** factor


def maximum_interval(
    maximum: int, trials: list[Trial], gpu: GpuEntry, *, certain: bool, capped: bool
) -> tuple[int, int]:
    """What the true maximum should lie between: the errors seen and, without a cap, a context unlike the usual one."""
    last = max((t for t in trials if t.fits), key=lambda t: t.batch_size)
    error = MAXIMUM_ERROR * doubt(gpu, certain=certain)
    bytes_per_sample = max((last.peak_allocated_bytes - last.resting_bytes) / last.batch_size, 1.0)
    low, usual, high = gpu.context_bytes
    fewer, more = (0.0, 0.0) if capped else ((high - usual) / bytes_per_sample, (usual - low) / bytes_per_sample)
    return max(floor(maximum * (1 - error) - fewer), 0), ceil(maximum * (1 + error) + more)


def time_factors(gpu: GpuEntry | None, *, certain: bool) -> Interval:
    """What a predicted time should be multiplied with for the fastest and the slowest that it may be.

    Doubts multiply: nothing is ever said to take no time at all.
    """
    factor = doubt(gpu, certain=certain)
    return (1 - TIME_ERROR) ** factor, (1 + TIME_ERROR) ** factor


def doubt(gpu: GpuEntry | None, *, certain: bool) -> float:
    """How many times further off than on a GPU that was measured, with operations that were."""
    is_measured = gpu is not None and gpu.id in MEASURED_GPUS
    return (1.0 if certain else UNKNOWN_OPERATIONS) * (1.0 if is_measured else ELSEWHERE)


def _around(value: float, error: float, most: float = inf) -> Interval:
    return value * (1 - error), min(value * (1 + error), most)
