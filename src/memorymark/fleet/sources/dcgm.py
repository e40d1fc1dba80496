"""Reads from Prometheus what exporters of DCGM said about GPUs: https://github.com/NVIDIA/dcgm-exporter.

Names of metrics and labels are those of its default configuration; older versions write some labels differently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from memorymark.errors import MemoryMarkError
from memorymark.fleet.holds import Device, Hold, Holder, Window
from memorymark.fleet.sources.prometheus_api import Prometheus, Series
from memorymark.fleet.sources.slurm import SlurmJobs
from memorymark.messages import Message
from memorymark.units import MIB

# GPU_UTIL does not exist for slices of a GPU; there the share of time with the engine active stands for it.
BUSY = "avg_over_time(DCGM_FI_DEV_GPU_UTIL[{step}s]) / 100 or avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[{step}s])"
DEVIATION = (
    "stddev_over_time(DCGM_FI_DEV_GPU_UTIL[{step}s]) / 100 or stddev_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[{step}s])"
)
USED = "max_over_time(DCGM_FI_DEV_FB_USED[{step}s])"
TENSOR = "avg_over_time(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE[{step}s])"
DRAM = "avg_over_time(DCGM_FI_PROF_DRAM_ACTIVE[{step}s])"
TOTAL = "last_over_time(DCGM_FI_DEV_FB_USED[{seconds}s]) + last_over_time(DCGM_FI_DEV_FB_FREE[{seconds}s])"
RESERVED = "last_over_time(DCGM_FI_DEV_FB_RESERVED[{seconds}s])"
OVER_TIME = {
    "busy": ("how busy GPUs were", BUSY),
    "deviation": ("how evenly", DEVIATION),
    "used_bytes": ("their memory", USED),
    "tensor": ("their tensor cores", TENSOR),
    "dram": ("their bandwidth", DRAM),
}
# Windows are the shortest of these of which the time asked for has no more than so many. Each has to hold samples.
STEPS = (300, 600, 900, 1800, 3600, 7200, 21600, 86400)
MOST_WINDOWS = 336
# DCGM says blank with numbers beyond these.
MOST_BUSY = 1.5
MOST_MIB = 2**30
OWN_CONTAINERS = ("dcgm-exporter", "nvidia-dcgm-exporter")
Key = tuple[Holder | None, Device]


@dataclass
class Seen:
    """What was read of one GPU under one job: parts of windows by the time at which they end."""

    parts: dict[int, dict[str, float]] = field(default_factory=dict)


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
    tell("asking Prometheus for their size")
    sizes = [server.at(query.format(seconds=int(seconds)), end) for query in (TOTAL, RESERVED)]
    return _as_holds(answers, sizes, step, slurm, end)


def _as_holds(
    answers: Mapping[str, list[Series]], sizes: list[list[Series]], step: int, slurm: SlurmJobs | None, end: int
) -> Recorded:
    reads = _Labels(labels for labels, _ in answers["busy"])
    totals: dict[Device, float] = {}
    for answer in sizes:
        for device, size in {reads.device(labels): max(values.values()) for labels, values in answer if values}.items():
            totals[device] = totals.get(device, 0.0) + size
    seen: dict[Key, Seen] = {}
    for name, answer in answers.items():
        for labels, values in answer:
            told = {when: value for when, value in values.items() if not _is_blank(name, value)}
            _add(seen, name, told, reads.device(labels), reads.holder(labels), slurm, step)
    total_bytes = {device: int(size * MIB) for device, size in totals.items() if size < MOST_MIB}
    return _assembled(_with_busy(seen), total_bytes, step, end)


def _add(
    seen: dict[Key, Seen],
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
        parts = seen.setdefault((holder, device), Seen()).parts
        for when, value in values.items():
            parts.setdefault(when, {})[name] = value
        return
    for when, value in values.items():
        for one in list(slurm.on(device, when - step / 2)) or [None]:
            seen.setdefault((one, device), Seen()).parts.setdefault(when, {})[name] = value


def _with_busy(seen: dict[Key, Seen]) -> dict[Key, Seen]:
    kept = {key: Seen({when: part for when, part in one.parts.items() if "busy" in part}) for key, one in seen.items()}
    return {key: one for key, one in kept.items() if one.parts}


def _assembled(seen: dict[Key, Seen], total_bytes: dict[Device, int], step: int, end: int) -> Recorded:
    sharing: dict[tuple[Device, int], int] = {}
    for (holder, device), one in seen.items():
        for when in one.parts if holder is not None else ():
            sharing[device, when] = sharing.get((device, when), 0) + 1
    anybody = any(holder is not None for holder, _ in seen)
    holds, free_seconds = [], 0.0
    for (holder, device), one in seen.items():
        if holder is None and anybody:
            free_seconds += step * sum((device, when) not in sharing for when in one.parts)
            continue
        known = replace(device, total_bytes=total_bytes.get(device))
        windows = tuple(_window(one.parts[when], step / sharing.get((device, when), 1)) for when in sorted(one.parts))
        span = max(one.parts) - min(one.parts) + step
        started = holder.started if holder is not None else None
        age = span if started is None else max(end - started, 0.0)
        # Samples of what still runs may be as old as a window.
        ended = max(one.parts) < end - step
        holds.append(Hold(holder or _itself(device), known, windows, "prometheus", age, ended))
    return Recorded(holds, len({device for _, device in seen}), free_seconds, step)


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


def _is_blank(name: str, value: float) -> bool:
    return value < 0 or value > (MOST_MIB if name == "used_bytes" else MOST_BUSY)


def _itself(device: Device) -> Holder:
    part = f"/{device.slice}" if device.slice else ""
    return Holder("gpu", f"{device.host}:{device.index}{part}")


class _Labels:
    """Reads the labels of DCGM's exporters as one Prometheus has them.

    Where Prometheus keeps its own labels of a target, those of the exporter begin with ``exported_``; then ``pod`` is
    the exporter's own pod.
    """

    def __init__(self, all_labels: Iterable[dict[str, str]]) -> None:
        exported = any("exported_pod" in labels for labels in all_labels)
        self._prefixes = ("exported_",) if exported else ("",)

    def device(self, labels: dict[str, str]) -> Device:
        """Returns the GPU; its total memory is not a label."""
        host = _first(labels, "Hostname", "hostname", "exported_hostname", "node", "instance")
        return Device(
            host=host.rpartition(":")[0] if host == labels.get("instance") and ":" in host else host,
            index=_first(labels, "gpu", "minor_number"),
            name=_first(labels, "modelName", "model_name"),
            slice=_first(labels, "GPU_I_ID"),
        )

    def holder(self, labels: dict[str, str]) -> Holder | None:
        """Returns the job or the pod that the labels name; ``None`` if they name none."""
        if (job := labels.get("hpc_job", "")) not in ("", "0"):
            return Holder("slurm", job)
        for prefix in self._prefixes:
            pod = _first(labels, f"{prefix}pod", f"{prefix}pod_name")
            space = _first(labels, f"{prefix}namespace", f"{prefix}pod_namespace")
            container = _first(labels, f"{prefix}container", f"{prefix}container_name")
            if pod and container not in OWN_CONTAINERS:
                return Holder("kubernetes", f"{space}/{pod}" if space else pod, space, container)
        return None


def _first(labels: Mapping[str, str], *names: str) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
