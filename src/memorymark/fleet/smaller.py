"""Finds a smaller GPU of the catalog that would have done a job's work."""

from __future__ import annotations

from functools import cache

from memorymark.catalog import GpuEntry, all_gpus, match_gpu
from memorymark.fleet.holds import Hold, Window, deviation, mean
from memorymark.fleet.thresholds import BURST_DEVIATIONS, OVERSIZED_FREE, SMALLER_FILL, SMALLER_SAVES
from memorymark.units import MIB

# What drivers of different versions report for one GPU differs by less.
SAME_MEMORY_BYTES = 64 * MIB


@cache
def known_gpu(name: str, total_bytes: int | None) -> GpuEntry | None:
    """Returns the catalog's GPU for a driver's name, a scheduler's type (``a100``), or a memory only one GPU has."""
    if name and (found := match_gpu(name)) is not None:
        return found
    if name and " " in name:  # a driver's name that the catalog does not know, or a slice of a GPU
        return None
    kind = name.lower().removeprefix("nvidia_").replace("_", "-")
    named = [gpu for gpu in all_gpus() if kind and (gpu.id == kind or gpu.id.startswith(f"{kind}-"))]
    if total_bytes is None:
        return _meant(named, kind)
    return _meant([gpu for gpu in named or all_gpus() if _has(gpu, total_bytes)], kind) if named or not kind else None


def _meant(gpus: list[GpuEntry], kind: str) -> GpuEntry | None:
    """Returns the only GPU, the one with exactly this name, or the only one that can be rented at a known price."""
    choices = (gpus, [gpu for gpu in gpus if gpu.id == kind], [gpu for gpu in gpus if gpu.price is not None])
    return next((choice[0] for choice in choices if len(choice) == 1), None)


def _has(gpu: GpuEntry, total_bytes: int | None) -> bool:
    return total_bytes is not None and abs(gpu.memory_bytes - total_bytes) < SAME_MEMORY_BYTES


def smaller_gpu(hold: Hold, at_work: tuple[Window, ...]) -> GpuEntry | None:
    """Returns the cheapest GPU that would have done the job's work on this one; ``None`` if none is worth it.

    Its memory has to hold the peak, its bandwidth and arithmetic what was used of this GPU's. Where a counter is
    missing, the time with a kernel running stands for it, an upper bound.
    """
    device, used = hold.device, hold.used_bytes
    here = known_gpu(device.name, device.total_bytes) if not device.slice else None
    if here is None or here.price is None or used is None or used > (1 - OVERSIZED_FREE) * here.memory_bytes:
        return None
    limit = (1 - SMALLER_SAVES) * here.price.usd_per_hour
    would_do = [
        gpu
        for gpu in all_gpus()
        if gpu.price is not None and gpu.price.usd_per_hour <= limit and gpu.memory_bytes < here.memory_bytes
        if used <= SMALLER_FILL * gpu.usable_bytes and (gpu.has_bf16 or not here.has_bf16)
        if _keeps_up(gpu, here, at_work)
    ]
    return min(would_do, key=lambda gpu: gpu.price.usd_per_hour if gpu.price else 0.0, default=None)


def _keeps_up(gpu: GpuEntry, here: GpuEntry, at_work: tuple[Window, ...]) -> bool:
    busy, spread = mean(at_work, "busy"), deviation(at_work)
    if not busy:
        return True
    peak = min(1.0, busy + BURST_DEVIATIONS * (spread if spread is not None else busy))
    tensor, dram = mean(at_work, "tensor"), mean(at_work, "dram")
    arithmetic = peak if tensor is None else min(peak, tensor * peak / busy)
    bandwidth = peak if dram is None else min(peak, dram * peak / busy)
    return (
        arithmetic * here.half_flops <= gpu.half_flops
        and bandwidth * here.bytes_per_second <= gpu.bytes_per_second
        and peak * here.fp32_flops <= gpu.fp32_flops
    )
