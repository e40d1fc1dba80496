"""How far off a prediction may be, from the errors of predictions that were checked by measurement.

Those of memory are 95th percentiles of `benchmarks/prediction.py`, over all workloads measured on an NVIDIA H200,
rounded up. Times are within their intervals in nine of ten cases; `benchmarks/other_gpus.py` checks that on GPUs that
nothing was fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, exp, floor, inf, log
from typing import Literal

from memorymark.catalog import GpuEntry
from memorymark.question.recipe import Recipe
from memorymark.results.knowledge import GpuKnowledge
from memorymark.results.trial import Trial

ALLOCATED_ERROR = 0.01
RESERVED_ERROR = 0.10
MAXIMUM_ERROR = 0.02
# The error of the ratio of speeds at two batch sizes: common errors cancel out, but not the host's share of a small
# batch's time.
SPEEDUP_ERROR = 0.30
# GPUs and operations that were never measured make predictions less certain, by these factors.
MEASURED_GPUS = frozenset({"h200"})
ELSEWHERE, UNKNOWN_OPERATIONS = 1.5, 2.0

Part = Literal["product", "attention", "convolution", "recurrent", "memory", "host"]
"""What a step's time goes into; ``memory`` is all that is bound by the GPU's memory."""
PARTS: tuple[Part, ...] = ("product", "attention", "convolution", "recurrent", "memory", "host")
# Operations or trainings on these GPUs that others published were used to fit the times.
PUBLIC_GPUS = frozenset(
    "a100-40gb h100-pcie l4 quadro-rtx5000 rtx-a4000 rtx-a5000 rtx3080-10gb t4 titan-rtx v100-16gb v100-32gb".split()
)
# Nine of ten steps that consist of one part take between its time divided and multiplied by exp(this).
TIME_SPREADS: dict[GpuKnowledge, tuple[float, ...]] = {
    "measured": (0.18, 0.22, 0.18, 0.30, 0.16, 0.27),
    "calibrated": (0.18, 0.22, 0.18, 0.30, 0.16, 0.27),
    "public": (0.25, 0.30, 0.22, 0.40, 0.20, 0.40),
    "datasheet": (0.30, 0.35, 0.27, 0.45, 0.25, 0.45),
}
NEVER_TIMED_SPREAD = log(3)

# Values of options that were never run on a GPU, and those whose memory was measured but not their time, by the
# option's name. For FlashAttention, torch's copy of the kernels was run, not flash-attn itself.
UNCHECKED = {"offload": ("activations", "optimizer")}
UNCHECKED_TRAINERS = frozenset({"GRPOTrainer"})
UNTIMED = {"gradient_checkpointing": ("selective",), "attention": ("flash",)}

Interval = tuple[float, float]


def unchecked_options(recipe: Recipe, trainer: str) -> tuple[str, ...]:
    """Returns the options whose prediction was never compared with a GPU's measurements."""
    several = ["strategy"] if recipe.used_strategy else []
    several += ["tensor_parallel"] if recipe.tensor_parallel > 1 else []
    return (*(("task",) if trainer in UNCHECKED_TRAINERS else ()), *several, *_named(UNCHECKED, recipe))


def untimed_options(recipe: Recipe, trainer: str) -> tuple[str, ...]:
    """Returns the options whose predicted memory was compared with measurements, but not their time.

    No step of a TRL trainer was timed.
    """
    return (*(("task",) if trainer and trainer not in UNCHECKED_TRAINERS else ()), *_named(UNTIMED, recipe))


def _named(values_of: Mapping[str, tuple[str, ...]], recipe: Recipe) -> tuple[str, ...]:
    return tuple(name for name, values in values_of.items() if getattr(recipe, name) in values)


def trial_intervals(
    trial: Trial,
    gpu: GpuEntry,
    *,
    certain: bool,
    timed: bool,
    capacity_bytes: int,
    shares: Mapping[Part, float] | None = None,
    never_timed: float = 0.0,
    calibrated: bool = False,
    nccl_bytes: tuple[int, int, int] = (0, 0, 0),
) -> dict[str, Interval]:
    """Returns the intervals of a trial that is predicted to fit; memory never exceeds the capacity.

    ``certain`` says that the memory of all its operations was measured, ``timed`` that its options were timed.
    ``shares`` are those of its parts in its time, ``never_timed`` that of operations whose time was never measured.
    ``calibrated`` says that a profile of the GPU corrects times. ``nccl_bytes`` are what NCCL takes: the least, the
    usual, the most.
    """
    factor = doubt(gpu, certain=certain)
    allocated = _around(trial.peak_allocated_bytes, ALLOCATED_ERROR * factor, capacity_bytes)
    least, most = _around(trial.peak_reserved_bytes, RESERVED_ERROR * factor, capacity_bytes)
    reserved = max(least, allocated[0]), most  # what is allocated is also reserved
    device_most = min(reserved[1] + gpu.context_bytes[2] + nccl_bytes[2], gpu.torch_memory_bytes)
    intervals = {
        "peak_allocated_bytes": allocated,
        "peak_reserved_bytes": reserved,
        "device_bytes": (reserved[0] + gpu.context_bytes[0] + nccl_bytes[0], device_most),
    }
    if trial.step_seconds and trial.samples_per_second:
        factors = time_factors(gpu, timed=timed, shares=shares, never_timed=never_timed, calibrated=calibrated)
        fastest, slowest = (trial.step_seconds * times for times in factors)
        samples = trial.samples_per_second * trial.step_seconds
        intervals |= {"step_seconds": (fastest, slowest), "samples_per_second": (samples / slowest, samples / fastest)}
    return intervals


def speedup_interval(speedup: float, gpu: GpuEntry | None, *, timed: bool, calibrated: bool = False) -> Interval:
    """Returns the interval of the ratio of two predicted speeds."""
    factor = doubt(gpu, certain=timed, calibrated=calibrated)
    return speedup * (1 - SPEEDUP_ERROR) ** factor, speedup * (1 + SPEEDUP_ERROR) ** factor


def hardly_untimed(trial: Trial, gpu: GpuEntry | None) -> bool:
    """Tells whether operations that were never timed are so small a part of a step that it is as certain as others."""
    _, slowest = (trial.intervals or {}).get("step_seconds", (0.0, inf))
    return slowest <= (trial.step_seconds or 0.0) * time_factors(gpu, timed=True)[1]


def maximum_interval(
    maximum: int,
    trials: list[Trial],
    gpu: GpuEntry,
    *,
    certain: bool,
    capped: bool,
    nccl_bytes: tuple[int, int, int] = (0, 0, 0),
) -> tuple[int, int]:
    """Returns the interval of a predicted maximum, from known errors and, without a cap, the spread of contexts and of
    what NCCL takes.
    """
    last = max((t for t in trials if t.fits), key=lambda t: t.batch_size)
    error = MAXIMUM_ERROR * doubt(gpu, certain=certain)
    bytes_per_sample = max((last.peak_allocated_bytes - last.resting_bytes) / last.batch_size, 1.0)
    low, usual, high = (context + nccl for context, nccl in zip(gpu.context_bytes, nccl_bytes, strict=True))
    fewer, more = (0.0, 0.0) if capped else ((high - usual) / bytes_per_sample, (usual - low) / bytes_per_sample)
    return max(floor(maximum * (1 - error) - fewer), 0), ceil(maximum * (1 + error) + more)


def time_factors(
    gpu: GpuEntry | None,
    *,
    timed: bool,
    shares: Mapping[Part, float] | None = None,
    never_timed: float = 0.0,
    calibrated: bool = False,
) -> Interval:
    """Returns the factors from a predicted time to the shortest and the longest that it may be, in nine of ten cases.

    Without ``shares`` they are those of the least certain of the usual parts. Options that were never timed double
    the exponent. Times are multiplied and divided, so that the shortest never becomes zero.
    """
    spread = time_spread(shares or {}, knowledge_of(gpu, calibrated=calibrated), never_timed)
    spread *= 1.0 if timed else UNKNOWN_OPERATIONS
    return exp(-spread), exp(spread)


def time_spread(shares: Mapping[Part, float], knowledge: GpuKnowledge, never_timed: float = 0.0) -> float:
    """Returns the exponent of those factors: parts count by their share, as does what was never timed."""
    spreads = dict(zip(PARTS, TIME_SPREADS[knowledge], strict=True))
    known = sum(share * spreads[part] for part, share in shares.items()) if shares else spreads["attention"]
    return (1 - never_timed) * known + never_timed * NEVER_TIMED_SPREAD


def knowledge_of(gpu: GpuEntry | None, *, calibrated: bool = False) -> GpuKnowledge:
    """Returns what predicted times of a GPU rest on; ``None`` stands for any GPU."""
    if calibrated:
        return "calibrated"
    if gpu is not None and gpu.id in MEASURED_GPUS:
        return "measured"
    return "public" if gpu is not None and gpu.id in PUBLIC_GPUS else "datasheet"


def doubt(gpu: GpuEntry | None, *, certain: bool, calibrated: bool = False) -> float:
    """Returns how many times larger errors may be than on a measured GPU with measured operations."""
    is_measured = calibrated or (gpu is not None and gpu.id in MEASURED_GPUS)
    is_certain = certain and not (gpu is not None and gpu.memory_only)  # nothing was checked with ROCm
    return (1.0 if is_certain else UNKNOWN_OPERATIONS) * (1.0 if is_measured else ELSEWHERE)


def _around(value: float, error: float, most: float = inf) -> Interval:
    return value * (1 - error), min(value * (1 + error), most)
