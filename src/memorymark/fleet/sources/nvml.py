"""Samples this host's GPUs for some seconds, and says which jobs hold them."""

from __future__ import annotations

import time
from collections.abc import Callable

from memorymark.devices.host_gpus import GpuProcess, HostGpu, sample_gpus
from memorymark.errors import UsageError
from memorymark.fleet.holds import Device, Hold, Holder, Window
from memorymark.fleet.sources.slurm import SlurmJobs
from memorymark.fleet.thresholds import HELD_MEMORY
from memorymark.messages import Message

SAMPLES = 20
INTERVAL_SECONDS = 0.5


def sampled(
    slurm: SlurmJobs | None = None,
    tell: Callable[[str], None] = lambda _: None,
    *,
    interval_seconds: float = INTERVAL_SECONDS,
) -> tuple[list[Hold], int, float]:
    """Returns the holds of this host's GPUs, how many there are, and the GPU-seconds in which nobody held one."""
    tell(f"watching this host's GPUs for {SAMPLES * INTERVAL_SECONDS:.0f} s")
    windows: dict[tuple[Holder, Device], list[Window]] = {}
    seen: set[Device] = set()
    free_seconds = 0.0
    for sample in range(SAMPLES):
        if sample:
            time.sleep(interval_seconds)
        gpus = sample_gpus()
        if gpus is None:
            raise UsageError(
                Message(
                    "no NVIDIA driver answers on this host; name a server with {prometheus}, or a file with {jobstats}."
                ),
                code="no_device",
            )
        for gpu in gpus:
            device = Device(gpu.host, str(gpu.index), gpu.name, total_bytes=gpu.total_bytes)
            seen.add(device)
            holders = _holders(gpu, device, slurm)
            free_seconds += 0.0 if holders else INTERVAL_SECONDS
            for holder, used_bytes in holders.items():
                window = Window(INTERVAL_SECONDS / len(holders), gpu.busy, 0.0, used_bytes)
                windows.setdefault((holder, device), []).append(window)
    now = time.time()
    holds = [
        Hold(holder, device, tuple(of_job), "nvml", None if holder.started is None else now - holder.started)
        for (holder, device), of_job in windows.items()
    ]
    return holds, len(seen), free_seconds


def _holders(gpu: HostGpu, device: Device, slurm: SlurmJobs | None) -> dict[Holder, int]:
    """Returns who holds a GPU, and the memory each uses: jobs of Slurm, else the processes of each user."""
    of_slurm = list(slurm.on(device, time.time())) if slurm is not None else []
    if of_slurm:
        return dict.fromkeys(of_slurm, gpu.used_bytes)
    by_job: dict[tuple[str, str], list[GpuProcess]] = {}
    for process in gpu.processes:
        by_job.setdefault((process.slurm_job, process.user), []).append(process)
    if not by_job and gpu.used_bytes >= HELD_MEMORY * gpu.total_bytes:  # by processes that a container hides
        return {Holder("gpu", f"{gpu.host}:{gpu.index}"): gpu.used_bytes}
    held = (_as_holder(job, user, processes, slurm) for (job, user), processes in by_job.items())
    # Containers hide how much each process uses; alone on a GPU, a job uses what is in use.
    return {holder: used if used is not None else gpu.used_bytes // len(by_job) for holder, used in held}


def _as_holder(job: str, user: str, processes: list[GpuProcess], slurm: SlurmJobs | None) -> tuple[Holder, int | None]:
    known = [process.used_bytes for process in processes if process.used_bytes is not None]
    used = sum(known) if len(known) == len(processes) else None
    started = [process.started for process in processes if process.started is not None]
    first = min(processes, key=lambda process: process.pid)
    if job:
        holder = Holder("slurm", job, user, first.command, min(started) if started else None)
        return slurm.described(holder) if slurm is not None else holder, used
    return Holder("process", str(first.pid), user, first.command, min(started) if started else None), used
