"""Watches all GPUs of this host and the processes on them, by the driver; without CUDA, and whoever they belong to."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorymark.devices.nvml import session

# A cgroup of Slurm: ``job_123`` or, in version 2, ``job_123`` below ``slurmstepd.scope``.
SLURM_CGROUP = re.compile(r"/job_(\d+)\b")


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU; what a container or another user's rights hide is empty or ``None``.

    ``started`` is in seconds since 1970. ``command`` is its name without arguments, which may hold secrets.
    """

    pid: int
    used_bytes: int | None
    user: str
    command: str
    started: float | None
    slurm_job: str


@dataclass(frozen=True)
class HostGpu:
    """A GPU by the driver's index, how busy it was in the last moments, and its processes."""

    host: str
    index: int
    name: str
    total_bytes: int
    used_bytes: int
    busy: float
    processes: tuple[GpuProcess, ...]


def sample_gpus() -> list[HostGpu] | None:
    """Returns what every GPU of this host does now; ``None`` without a driver.

    GPUs that do not tell, as those cut into MIG slices, are left out.
    """
    with session() as nvml:
        if nvml is None:
            return None
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError:
            return None
        found = (_sampled(nvml, index) for index in range(count))
        return [gpu for gpu in found if gpu is not None]


def _sampled(nvml: Any, index: int) -> HostGpu | None:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        name = nvml.nvmlDeviceGetName(handle)
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:
        return None
    processes = tuple(_process(one.pid, one.usedGpuMemory) for one in running)
    return HostGpu(platform.node(), index, name, int(memory.total), int(memory.used), busy, processes)


def _process(pid: int, used_bytes: int | None) -> GpuProcess:
    folder = Path("/proc") / str(pid)
    user = command = job = ""
    with suppress(OSError):
        user = _user(folder.stat().st_uid)
        command = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
        found = SLURM_CGROUP.search((folder / "cgroup").read_text(encoding="utf-8", errors="replace"))
        job = found[1] if found else ""
    return GpuProcess(pid, used_bytes, user, command, _started(folder), job)


def _user(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def _started(folder: Path) -> float | None:
    """Returns when a process started: its 22nd field, in ticks since the machine booted."""
    with suppress(OSError, ValueError, IndexError, StopIteration):
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        booted = int(next(line for line in lines if line.startswith("btime ")).split()[1])
        return booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return None
