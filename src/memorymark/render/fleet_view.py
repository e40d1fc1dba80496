"""What the reports about a fleet say, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from memorymark.results.fleet import Fleet, FleetJob, Source, Verdict
from memorymark.results.fleet_words import hours, percent, used_of
from memorymark.units import format_usd

VERDICTS: dict[Verdict, str] = {
    "idle": "idle",
    "data_bound": "waits for data",
    "oversized": "oversized",
    "tensor_idle": "tensor cores idle",
    "underused": "underused",
    "fine": "fine",
    "too_young": "too young to judge",
}
SOURCES: dict[Source, str] = {"nvml": "this host's driver", "prometheus": "Prometheus", "jobstats": "jobstats"}
UNKNOWN = "?: monitoring does not show how much is wasted; `memorymark watch` does."
OF_CATALOG = "Prices are those of the catalog; `memorymark gpus` lists them."
UPPER_BOUND = "What is wasted is an upper bound: no training keeps a GPU busy all the time."
SAMPLED = "GPUs were sampled for seconds only, so amounts are per day if jobs go on like this."
MEANS = "jobstats has only the mean of a job's utilization: bursts and idle hours cannot be told apart."
LEFT_OUT = "no price"


def heading(fleet: Fleet) -> tuple[str, str]:
    """Returns the title, and a line with the time, the GPUs and the sources."""
    when = datetime.fromisoformat(fleet.at).strftime("%Y-%m-%d %H:%M UTC")
    past = fleet.seconds is not None
    looked = f"the last {duration(fleet.seconds or 0)} until {when}" if past else when
    gpus = f"{fleet.gpus} GPU{'' if fleet.gpus == 1 else 's'}"
    named = ", ".join(SOURCES[source] for source in fleet.sources)
    return "Who wastes what", " · ".join((looked, gpus, counted(fleet.all_jobs, "job"), named))


def summary(fleet: Fleet) -> str:
    """Says how much is wasted by how many jobs."""
    wasteful = fleet.all_jobs - fleet.verdicts.get("fine", 0) - fleet.verdicts.get("too_young", 0)
    if not fleet.all_jobs:
        return "No job holds a GPU."
    if not wasteful:
        return "No job wastes GPU time."
    jobs = f"{wasteful} of {counted(fleet.all_jobs, 'job')} {'wastes' if wasteful == 1 else 'waste'}"
    if fleet.sampled:
        cost = _cost(fleet.wasted_usd_a_day)
        return f"{jobs} up to {hours(fleet.wasted_gpu_hours_a_day)} GPU-hours{cost} a day."
    part = f" ({percent(fleet.wasted_gpu_hours / fleet.gpu_hours)})" if fleet.gpu_hours else ""
    wasted = f"{hours(fleet.wasted_gpu_hours)} of {hours(fleet.gpu_hours)} GPU-hours{part}"
    return f"{jobs} up to {wasted}{_cost(fleet.wasted_usd)}."


def others(fleet: Fleet) -> str:
    """Says how many jobs are not listed, and why; empty if all are."""
    unlisted: tuple[Verdict, ...] = ("fine", "too_young")
    counts = {verdict: fleet.verdicts.get(verdict, 0) for verdict in unlisted}
    listed = len(wasteful(fleet))
    cut = fleet.all_jobs - sum(counts.values()) - listed
    parts = [f"{count} {VERDICTS[verdict]}" for verdict, count in counts.items() if count]
    parts = [f"{cut} that waste less", *parts] if cut else parts
    return f"Not listed: {', '.join(parts)}." if parts else ""


def notes(fleet: Fleet) -> Iterator[str]:
    """Yields what to know about the numbers, warnings first."""
    yield from fleet.warnings
    if left := others(fleet):
        yield left
    if fleet.free_gpu_hours and not fleet.sampled:
        yield f"GPUs that no known job held: {hours(fleet.free_gpu_hours)} GPU-hours."
    if any(not job.wasted_gpu_hours for job in wasteful(fleet)):
        yield UNKNOWN
    if wasteful(fleet):
        yield UPPER_BOUND
        yield OF_CATALOG if fleet.price_per_hour is None else f"A GPU costs ${fleet.price_per_hour:.2f}/h, as given."
    if fleet.sampled:
        yield SAMPLED
    if fleet.window_seconds:
        yield (
            f"Utilization is averaged over windows of {duration(fleet.window_seconds)}; idle time is counted in whole "
            "windows, shorter pauses show as bursts."
        )
    if "jobstats" in fleet.sources:
        yield MEANS


def wasteful(fleet: Fleet) -> list[FleetJob]:
    """Returns the jobs with findings."""
    return [job for job in fleet.jobs if job.findings]


def wasted(fleet: Fleet, job: FleetJob) -> tuple[str, str]:
    """Returns a job's wasted GPU-hours and dollars, of a day if GPUs were only sampled; unknown amounts are dashes."""
    amount, usd = (
        (job.wasted_gpu_hours_a_day, job.wasted_usd_a_day) if fleet.sampled else (job.wasted_gpu_hours, job.wasted_usd)
    )
    if not amount:
        return "?", "?"
    return hours(amount), LEFT_OUT if usd is None else f"${format_usd(usd)}"


def hours_of(fleet: Fleet, job: FleetJob) -> str:
    """Returns a job's wasted GPU-hours of those that it held: ``12.3 of 168 GPU-hours``."""
    amount, unit = wasted(fleet, job)[0], units(fleet)[0]
    return f"{amount} {unit}" if fleet.sampled else f"{amount} of {hours(job.gpu_hours)} {unit}"


def units(fleet: Fleet) -> tuple[str, str]:
    """Returns the headings of the amounts."""
    return ("GPU-h a day", "$ a day") if fleet.sampled else ("GPU-hours", "dollars")


def memory(job: FleetJob) -> str:
    """Returns the most memory in use on one GPU, of its total: ``9.0 of 80 GiB``."""
    return "" if job.used_bytes is None else used_of(job.used_bytes, job.total_bytes)


def findings(job: FleetJob) -> str:
    """Names all findings of a job, the worst first."""
    return ", ".join(VERDICTS[one.finding] for one in job.findings) or VERDICTS[job.verdict]


def gpus(job: FleetJob) -> str:
    """Returns how many GPUs of which models a job holds."""
    return f"{job.gpus} x {', '.join(name.removeprefix('NVIDIA ') for name in job.gpu_names)}"


def duration(seconds: float) -> str:
    """Formats a time in its largest whole unit: ``7 d``, ``36 h``, ``90 min``."""
    for unit, size, least in (("d", 86400, 2), ("h", 3600, 1), ("min", 60, 1)):
        if seconds >= least * size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def counted(count: int, noun: str) -> str:
    """Returns ``1 job``, ``2 jobs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cost(usd: float | None) -> str:
    return "" if usd is None else f", ${format_usd(usd)}"
