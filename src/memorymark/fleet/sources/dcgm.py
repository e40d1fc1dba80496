"""Reads from Prometheus what exporters of DCGM said about GPUs: https://github.com/NVIDIA/dcgm-exporter.

Names of metrics and labels are those of its default configuration; older versions write some labels differently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from memorymark.errors import MemoryMarkError
from memorymark.fleet.holds import Device, Hold, Holder, Window
from memorymark.fleet.sources.dcgm_labels import Labels
from memorymark.fleet.sources.prometheus_api import Prometheus, Series
from memorymark.fleet.sources.slurm import SlurmJobs
from memorymark.messages import Message
from memorymark.units import MIB

# GPU_UTIL does not exist for slices of a GPU; there the share of time with the engine active stands for it.
BUSY = "avg_over_time(DCGM_FI_DEV_GPU_UTIL[{step}s]) / 100 or avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[{step}s])"
DEVIATION = (
    "stddev_over_time(DCGM_FI_DEV_GPU_UTIL[{step}s]) / 100 or stddev_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[{step}s])"
)
SAMPLES = "count_over_time(DCGM_FI_DEV_GPU_UTIL[{step}s]) or count_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[{step}s])"
USED = "max_over_time(DCGM_FI_DEV_FB_USED[{step}s])"
TENSOR = "avg_over_time(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE[{step}s])"
DRAM = "avg_over_time(DCGM_FI_PROF_DRAM_ACTIVE[{step}s])"
TOTAL = "last_over_time(DCGM_FI_DEV_FB_USED[{seconds}s]) + last_over_time(DCGM_FI_DEV_FB_FREE[{seconds}s])"
RESERVED = "last_over_time(DCGM_FI_DEV_FB_RESERVED[{seconds}s])"
OVER_TIME = {
    "busy": ("utilization", BUSY),
    "deviation": ("its spread", DEVIATION),
    "samples": ("numbers of samples", SAMPLES),
    "used_bytes": ("memory in use", USED),
    "tensor": ("tensor cores", TENSOR),
    "dram": ("bandwidth", DRAM),
}
# Windows are the shortest of these of which the time asked for has no more than so many. Each has to hold samples.
STEPS = (300, 600, 900, 1800, 3600, 7200, 21600, 86400)
MOST_WINDOWS = 336
# DCGM says blank with numbers beyond these.
MOST = {"used_bytes": 2.0**30, "samples": 1e9}
MOST_PART = 1.5
Key = tuple[Holder | None, Device]
# What was read of one GPU under one job: parts of windows, by the time at which a window ends.
Parts = dict[int, dict[str, float]]


@dataclass(frozen=True)
class Recorded:
    """What exporters recorded: holds, GPUs, and the GPU-seconds of GPUs that nobody held."""

    holds: list[Hold]
    devices: int
    free_seconds: float
    window_seconds: int


def step_for(seconds: float) -> int:
    """Returns the length of windows for a time."""
    return next((step for step in STEPS if seconds / step <= MOST_WINDOWS), ceil(seconds / MOST_WINDOWS))


def recorded(
    server: Prometheus,
    seconds: float,
    slurm: SlurmJobs | None = None,
    tell: Callable[[str], None] = lambda _: None,
    now: float | None = None,
) -> Recorded:
    """Reads what GPUs did in the last ``seconds``; jobs of Slurm name who held those without a job's label."""
    step = step_for(seconds)
    end = int(time.time() if now is None else now)
    start = end - max(int(seconds) // step - 1, 0) * step
    answers: dict[str, list[Series]] = {}
    for name, (what, query) in OVER_TIME.items():
        tell(f"asking Prometheus for {what}")
        answers[name] = server.over_time(query.format(step=step), start=start, end=end, step=step)
        if name == "busy" and not answers[name]:
            raise MemoryMarkError(
                Message(
                    "{url} has no DCGM_FI_DEV_GPU_UTIL in that time; does it scrape dcgm-exporter? Look further back "
                    "with {since}.",
                    url=server.url,
                )
            )
    tell("asking Prometheus for sizes of memory")
    sizes = [server.at(query.format(seconds=int(seconds)), end) for query in (TOTAL, RESERVED)]
    return _as_holds(answers, sizes, step, slurm, end)


def _as_holds(
    answers: Mapping[str, list[Series]], sizes: list[list[Series]], step: int, slurm: SlurmJobs | None, end: int
) -> Recorded:
    reads = Labels(labels for labels, _ in answers["busy"])
    totals: dict[Device, float] = {}
    for answer in sizes:
        for device, size in {reads.device(labels): max(values.values()) for labels, values in answer if values}.items():
            totals[device] = totals.get(device, 0.0) + size
    seen: dict[Key, Parts] = {}
    for name, answer in answers.items():
        for labels, values in answer:
            told = {when: value for when, value in values.items() if 0 <= value <= MOST.get(name, MOST_PART)}
            _add(seen, name, told, reads.device(labels), reads.holder(labels), slurm, step)
    total_bytes = {device: int(size * MIB) for device, size in totals.items() if size <= MOST["used_bytes"]}
    return _assembled(_with_busy(seen), total_bytes, step, end)


def _add(
    seen: dict[Key, Parts],
    name: str,
    values: dict[int, float],
    device: Device,
    holder: Holder | None,
    slurm: SlurmJobs | None,
    step: int,
) -> None:
    """Adds values to who held the GPU: the job that a label names, described by Slurm, or else Slurm's jobs on it."""
    if holder is not None or slurm is None:
        if holder is not None and slurm is not None and holder.kind == "slurm":
            holder = slurm.described(holder)
        parts = seen.setdefault((holder, device), {})
        for when, value in values.items():
            parts.setdefault(when, {})[name] = value
        return
    for when, value in values.items():
        holders: list[Holder | None] = [*slurm.on(device, when - step / 2)]
        for one in holders or [None]:
            seen.setdefault((one, device), {}).setdefault(when, {})[name] = value


def _with_busy(seen: dict[Key, Parts]) -> dict[Key, Parts]:
    kept = {key: {when: part for when, part in parts.items() if "busy" in part} for key, parts in seen.items()}
    return {key: parts for key, parts in kept.items() if parts}


def _assembled(seen: dict[Key, Parts], total_bytes: dict[Device, int], step: int, end: int) -> Recorded:
    shares = _shares(seen)
    held: dict[tuple[Device, int], float] = {}
    for (holder, device), share in shares.items():
        for when, part in share.items() if holder is not None else ():
            held[device, when] = held.get((device, when), 0.0) + part
    anybody = any(holder is not None for holder, _ in seen)
    holds, free_seconds = [], 0.0
    for (holder, device), parts in seen.items():
        share = shares[holder, device]
        if holder is None and anybody:
            free_seconds += step * sum(max(part - held.get((device, when), 0.0), 0.0) for when, part in share.items())
            continue
        known = replace(device, total_bytes=total_bytes.get(device))
        windows = tuple(
            _window(parts[when], step * share[when] / max(held.get((device, when), 1.0), 1.0)) for when in sorted(parts)
        )
        started = holder.started if holder is not None else None
        age = step * sum(share.values()) if started is None else max(end - started, 0.0)
        # Samples of what still runs may be as old as a window.
        ended = max(parts) < end - step
        holds.append(Hold(holder or _itself(device), known, windows, "prometheus", age, ended))
    return Recorded(holds, len({device for _, device in seen}), free_seconds, step)


def _shares(seen: dict[Key, Parts]) -> dict[Key, dict[int, float]]:
    """Returns the part of each window in which a job held a GPU: its samples, of as many as windows usually have."""
    most: dict[Device, dict[int, float]] = {}
    for (_, device), parts in seen.items():
        counts = most.setdefault(device, {})
        for when, part in parts.items():
            counts[when] = max(counts.get(when, 0.0), part.get("samples", 0.0))
    usual = {device: median(counts.values()) for device, counts in most.items()}
    return {
        (holder, device): {
            when: min(part["samples"] / usual[device], 1.0) if part.get("samples") and usual[device] else 1.0
            for when, part in parts.items()
        }
        for (holder, device), parts in seen.items()
    }


def _window(part: dict[str, float], seconds: float) -> Window:
    used = part.get("used_bytes")
    return Window(
        seconds,
        min(part["busy"], 1.0),
        part.get("deviation"),
        None if used is None else used * MIB,
        part.get("tensor"),
        part.get("dram"),
    )


def _itself(device: Device) -> Holder:
    part = f"/{device.slice}" if device.slice else ""
    return Holder("gpu", f"{device.host}:{device.index}{part}")
