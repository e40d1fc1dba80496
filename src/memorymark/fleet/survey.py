"""Asks the sources that a caller names, joins what they say, and returns the jobs ranked by what they waste."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from memorymark.fleet.holds import Hold
from memorymark.fleet.ranking import rank
from memorymark.fleet.sources import dcgm, jobstats, nvml
from memorymark.fleet.sources.prometheus_api import Prometheus
from memorymark.fleet.sources.slurm import SlurmJobs, read_squeue
from memorymark.results.cost import SECONDS_PER_HOUR
from memorymark.results.fleet import Fleet, Source, totals
from memorymark.units import iso_time


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """What to ask: a Prometheus server and how far back, what ``squeue --json`` and ``sacct`` printed.

    ``price_per_hour`` is the caller's price, ``top`` how many jobs to name.

    Without a server and without a table of ``sacct``, the GPUs of this host are sampled.
    """

    prometheus: Prometheus | None = None
    seconds: float = SECONDS_PER_HOUR
    squeue: str | None = None
    sacct: str | None = None
    price_per_hour: float | None = None
    top: int | None = None


@dataclass
class _Gathered:
    """What the sources said so far."""

    holds: list[Hold] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    gpus: int = 0
    free_seconds: float = 0.0
    window_seconds: float | None = None
    warnings: list[str] = field(default_factory=list)


def survey(asked: Inquiry, tell: Callable[[str], None] = lambda _: None) -> Fleet:
    """Returns who wastes what; ``tell`` hears what is under way."""
    now = time.time()
    slurm = read_squeue(asked.squeue) if asked.squeue is not None else None
    found = _Gathered()
    if asked.prometheus is not None:
        _ask_prometheus(found, asked.prometheus, asked.seconds, slurm, tell)
    if asked.sacct is not None:
        _read_jobstats(found, asked.sacct)
    sampled = not (asked.prometheus or asked.sacct is not None)
    if sampled:
        found.holds, found.gpus, found.free_seconds = nvml.sampled(slurm, tell)
        found.sources.append("nvml")
    if slurm is not None and slurm.jobs and not any(hold.holder.kind == "slurm" for hold in found.holds):
        found.warnings.append("None of Slurm's running jobs was found on these GPUs; do the names of the hosts agree?")
    jobs = rank(found.holds, asked.price_per_hour)
    return Fleet(
        at=iso_time(now),
        seconds=asked.seconds if asked.prometheus is not None else None,
        window_seconds=found.window_seconds,
        sampled=sampled,
        price_per_hour=asked.price_per_hour,
        sources=tuple(found.sources),
        gpus=found.gpus,
        free_gpu_hours=found.free_seconds / SECONDS_PER_HOUR,
        jobs=jobs[: asked.top],
        warnings=tuple(found.warnings),
        **totals(jobs),
    )


def _ask_prometheus(
    found: _Gathered,
    server: Prometheus,
    seconds: float,
    slurm: SlurmJobs | None,
    tell: Callable[[str], None],
) -> None:
    seen = dcgm.recorded(server, seconds, slurm, tell)
    found.holds += seen.holds
    found.sources.append("prometheus")
    found.gpus, found.free_seconds, found.window_seconds = seen.devices, seen.free_seconds, seen.window_seconds
    found.warnings += server.warnings


def _read_jobstats(found: _Gathered, sacct: str) -> None:
    """Adds jobs that no other source has seen, since these only have means."""
    holds, left_out = jobstats.read_sacct(sacct)
    known = {(hold.holder.kind, hold.holder.id) for hold in found.holds}
    new = [hold for hold in holds if (hold.holder.kind, hold.holder.id) not in known]
    devices = {(hold.device.host, hold.device.index) for hold in (*found.holds, *new)}
    found.holds, found.gpus = [*found.holds, *new], max(found.gpus, len(devices))
    found.sources.append("jobstats")
    if left_out:
        found.warnings.append(
            f"{left_out} of jobstats' summaries are damaged or lack utilization; those jobs are left out."
        )
