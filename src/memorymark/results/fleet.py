"""What the jobs of many GPUs waste. Pure, no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memorymark.documents import Record, in_document
from memorymark.results.fleet_words import about_finding, about_job

HolderKind = Literal["slurm", "kubernetes", "process", "gpu"]
# What saw the GPUs.
Source = Literal["nvml", "prometheus", "jobstats"]
FindingKind = Literal["idle", "data_bound", "oversized", "tensor_idle", "underused"]
Verdict = Literal["idle", "data_bound", "oversized", "tensor_idle", "underused", "fine", "too_young"]


@dataclass(frozen=True, kw_only=True)
class FleetFinding(Record):
    """What a job wastes, and how much at most."""

    finding: FindingKind
    """``idle``: its GPU does nothing. ``data_bound``: its GPU waits, in bursts. ``oversized``: a smaller GPU would do.
    ``tensor_idle``: its GPU is busy, its tensor cores are not. ``underused``: its GPU waits, and nothing says why.
    """
    gpus: int
    """How many of the job's GPUs it is about."""
    gpu_hours: float
    """How long the job held these, added up."""
    wasted_gpu_hours: float | None
    """How much of that is wasted, at most; null if monitoring cannot tell."""
    smaller_gpu: str | None = None
    """The catalog's cheapest GPU that would do, for ``oversized``."""
    smaller_usd_per_hour: float | None = None
    """Its price, in proportion to the job's if the caller named that."""


@dataclass(frozen=True, kw_only=True)
class FleetJob(Record):
    """A job and what its GPUs did."""

    holder: HolderKind
    """What the job is: of Slurm, a pod of Kubernetes, a process, or a GPU of which nobody says who holds it."""
    id: str
    """Its id; of a pod the namespace and the name."""
    owner: str
    """Its user or namespace; empty if unknown."""
    name: str
    """What it is called; empty if unknown."""
    hosts: tuple[str, ...]
    """Where it runs."""
    gpus: int
    """How many GPUs it holds."""
    gpu_names: tuple[str, ...]
    """Their models."""
    source: Source
    """What saw them."""
    age_seconds: float | None
    """How old it is at least; null if unknown."""
    ended: bool
    """Whether it no longer runs."""
    gpu_hours: float
    """How long it held its GPUs while they were observed, added up; a shared GPU counts in part."""
    busy: float
    """The part of that time in which a kernel ran."""
    busy_deviation: float | None
    """The spread of that; null if only the mean is known."""
    idle_gpu_hours: float
    """GPU-hours in which nothing ran, as far as windows tell."""
    used_bytes: int | None
    """The most memory in use on one of its GPUs."""
    total_bytes: int | None
    """What that GPU has."""
    tensor_active: float | None
    """The part of the time in which tensor cores worked; null if it was not recorded."""
    usd_per_hour: float | None
    """The price of one of its GPUs; null if unknown."""
    too_young: bool
    """Whether it was too young to judge."""
    wasted_gpu_hours: float
    """GPU-hours wasted, at most; where findings overlap, the larger one counts."""
    findings: tuple[FleetFinding, ...]
    """What it wastes, the worst first."""

    @property
    @in_document
    def verdict(self) -> Verdict:
        """The worst finding, ``fine``, or ``too_young``."""
        return "too_young" if self.too_young else self.findings[0].finding if self.findings else "fine"

    @property
    @in_document
    def wasted_usd(self) -> float | None:
        """What the wasted GPU-hours cost; null if the price is unknown."""
        return None if self.usd_per_hour is None else self.wasted_gpu_hours * self.usd_per_hour

    @property
    @in_document
    def wasted_gpu_hours_a_day(self) -> float:
        """GPU-hours that it wastes in a day if it goes on like this; none if it has ended."""
        goes_on = self.gpu_hours and not self.ended
        return 24 * self.gpus * self.wasted_gpu_hours / self.gpu_hours if goes_on else 0.0

    @property
    @in_document
    def wasted_usd_a_day(self) -> float | None:
        """What they cost; null if the price is unknown."""
        return None if self.usd_per_hour is None else self.wasted_gpu_hours_a_day * self.usd_per_hour

    @property
    @in_document
    def says(self) -> str:
        """What its owner can be told."""
        return about_job(self)

    @property
    def reasons(self) -> list[str]:
        """Each finding in words."""
        return [about_finding(self, one) for one in self.findings]


@dataclass(frozen=True, kw_only=True)
class Fleet(Record):
    """The jobs of many GPUs, those that waste most first."""

    kind: ClassVar[Literal["fleet"]] = "fleet"

    at: str
    """When it was asked."""
    seconds: float | None
    """The time up to then that was looked at; null if only whole jobs were."""
    window_seconds: float | None
    """The windows in which utilization is averaged; shorter bursts show in its spread only."""
    sampled: bool
    """Whether GPUs were only sampled for some seconds, so that amounts are rates: read those of a day."""
    sources: tuple[Source, ...]
    """What was asked."""
    price_per_hour: float | None
    """The caller's price of any GPU; null if those of the catalog count."""
    gpus: int
    """How many GPUs were seen."""
    free_gpu_hours: float
    """GPU-hours of GPUs that no job held, as far as is known."""
    gpu_hours: float
    """GPU-hours that jobs held."""
    wasted_gpu_hours: float
    """GPU-hours that jobs wasted, at most."""
    wasted_usd: float | None
    """What they cost; null if no price is known. Jobs without a price are left out."""
    wasted_gpu_hours_a_day: float
    """GPU-hours that jobs waste in a day if all go on like this."""
    wasted_usd_a_day: float | None
    """What they cost; null if no price is known."""
    verdicts: dict[str, int]
    """How many jobs there are of each verdict."""
    jobs: tuple[FleetJob, ...]
    """The jobs, those that waste most first; the worst of them if only so many were asked for."""
    warnings: tuple[str, ...] = ()
    """What may be missing."""

    @property
    def all_jobs(self) -> int:
        """How many jobs there are."""
        return sum(self.verdicts.values())


def totals(jobs: Sequence[FleetJob]) -> dict[str, Any]:
    """Returns what all jobs add up to, as the fields of a ``Fleet``."""
    return {
        "gpu_hours": sum(job.gpu_hours for job in jobs),
        "wasted_gpu_hours": sum(job.wasted_gpu_hours for job in jobs),
        "wasted_usd": _sum_of_known(job.wasted_usd for job in jobs),
        "wasted_gpu_hours_a_day": sum(job.wasted_gpu_hours_a_day for job in jobs),
        "wasted_usd_a_day": _sum_of_known(job.wasted_usd_a_day for job in jobs),
        "verdicts": dict(Counter(job.verdict for job in jobs)),
    }


def _sum_of_known(amounts: Iterable[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
