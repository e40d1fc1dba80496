"""What can be said to the owner of a job that wastes GPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memorymark.catalog import gpu_with_id
from memorymark.units import gib

if TYPE_CHECKING:
    from memorymark.results.fleet import FleetFinding, FleetJob


def about_job(job: FleetJob) -> str:
    """Says in a sentence what the job's owner can do."""
    if job.too_young:
        return "Too young to judge."
    if not job.findings:
        return f"Nothing to say: busy {percent(job.busy)} of the time."
    said = "; ".join(about_finding(job, finding) for finding in job.findings)
    return f"{said[0].upper()}{said[1:]}."


def about_finding(job: FleetJob, finding: FleetFinding) -> str:
    """Says what one finding is and what to do about it."""
    match finding.finding:
        case "idle":
            return f"{_which(job, finding)} {_idle(finding)}: {_free(job, finding)}"
        case "data_bound":
            return (
                f"busy {percent(job.busy)} of the time, in bursts, {_memory(job)}: waits for data or for the CPU; "
                "run `memorymark watch`"
            )
        case "oversized":
            smaller = gpu_with_id(finding.smaller_gpu)
            name = smaller.name if smaller is not None else str(finding.smaller_gpu)
            prices = [price for price in (finding.smaller_usd_per_hour, job.usd_per_hour) if price is not None]
            cost = f" (${prices[0]:.2f}/h instead of ${prices[1]:.2f}/h)" if len(prices) == 2 else ""
            some = f"an {name}" if finding.gpus == 1 else f"{finding.gpus} x {name}"
            return f"{_memory(job)}, busy {percent(job.busy)} of the time: {some} would do{cost}"
        case "tensor_idle":
            return (
                f"{_memory(job)}, busy {percent(job.busy)} of the time, tensor cores idle: run `memorymark watch`; "
                "bf16 or TF32 may be off"
            )
        case "underused":
            return (
                f"busy {percent(job.busy)} of the time, {_memory(job)}: run `memorymark watch` to see what it waits for"
            )


def percent(part: float) -> str:
    """Formats a part of a whole."""
    return f"{100 * part:.0f} %"


def _memory(job: FleetJob) -> str:
    if job.used_bytes is None:
        return "using an unknown amount of memory"
    return f"uses {used_of(job.used_bytes, job.total_bytes)}"


def _which(job: FleetJob, finding: FleetFinding) -> str:
    if job.gpus == 1:
        return "its GPU"
    return f"its {job.gpus} GPUs" if finding.gpus == job.gpus else f"{finding.gpus} of its {job.gpus} GPUs"


def _idle(finding: FleetFinding) -> str:
    return f"did nothing for {hours(finding.wasted_gpu_hours or 0.0)} of {hours(finding.gpu_hours)} GPU-hours"


def _free(job: FleetJob, finding: FleetFinding) -> str:
    if job.ended:
        return "ask for fewer next time" if finding.gpus < job.gpus else "see whether the code used the GPU at all"
    if finding.gpus < job.gpus:
        return f"ask for {job.gpus - finding.gpus} instead of {job.gpus}"
    return f"free {'it' if job.gpus == 1 else 'them'}, or end the job"


def used_of(used_bytes: int, total_bytes: int | None) -> str:
    """Formats memory in use of a total: ``9.0 of 80 GiB``."""
    if total_bytes is None:
        return f"{gib(used_bytes):.1f} GiB"
    return f"{gib(used_bytes):.1f} of {gib(total_bytes):.0f} GiB"


def hours(amount: float) -> str:
    """Formats GPU-hours: ``1,234``, ``12.3``, ``0.05``."""
    return f"{amount:,.0f}" if amount >= 99.5 else f"{amount:.1f}" if amount >= 0.95 else f"{amount:.2f}"
