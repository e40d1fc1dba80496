"""A fleet as files: a page, a table, and metrics for Prometheus."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import datetime

from memorymark.render import fleet_view as view
from memorymark.render.csv import cell
from memorymark.render.html import render_page
from memorymark.render.plain import one_line
from memorymark.results.cost import SECONDS_PER_HOUR
from memorymark.results.fleet import Fleet, FleetJob
from memorymark.results.fleet_words import percent

COLUMNS = (
    "holder", "id", "owner", "name", "gpus", "source", "age_seconds", "gpu_hours", "busy", "busy_deviation",
    "idle_gpu_hours", "used_bytes", "total_bytes", "tensor_active", "usd_per_hour", "verdict", "wasted_gpu_hours",
    "wasted_usd", "wasted_gpu_hours_a_day", "wasted_usd_a_day", "says",
)  # fmt: skip
# Metrics of each job, by the attribute that they show; Prometheus counts time in seconds.
OF_JOBS = {
    "wasted_gpu_hours": ("job_wasted_gpu_seconds", "GPU-seconds that a job wasted, at most.", SECONDS_PER_HOUR),
    "wasted_usd": ("job_wasted_usd", "What they cost in dollars.", 1),
    "wasted_usd_a_day": ("job_wasted_usd_per_day", "Dollars that a job wastes in a day if it goes on.", 1),
    "gpus": ("job_gpus", "GPUs that a job holds.", 1),
    "busy": ("job_busy_ratio", "Part of its time in which a kernel ran.", 1),
}
Sample = tuple[dict[str, str], float]


def as_page(fleet: Fleet) -> str:
    """Returns a self-contained page."""
    jobs = view.wasteful(fleet)
    most = max((job.wasted_usd or 0.0 for job in jobs), default=0.0) or 1.0
    by_money = all(job.wasted_usd is not None for job in jobs)
    most_hours = max((job.wasted_gpu_hours for job in jobs), default=0.0) or 1.0
    facts = {
        "heading": view.heading(fleet),
        "summary": view.summary(fleet),
        "jobs": [
            {
                "job": job,
                "share": (job.wasted_usd or 0.0) / most if by_money else job.wasted_gpu_hours / most_hours,
                "wasted": view.wasted(fleet, job),
                "hours": view.hours_of(fleet, job),
                "gpus": view.gpus(job),
                "busy": percent(job.busy),
                "memory": view.memory(job),
                "kinds": [(one.finding, view.VERDICTS[one.finding]) for one in job.findings],
            }
            for job in jobs
        ],
        "notes": list(view.notes(fleet)),
    }
    return render_page("fleet", facts, "MemoryMark: who wastes what")


def as_csv(fleet: Fleet) -> str:
    """Returns all jobs as CSV, those that waste most first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, (*COLUMNS, "findings", "hosts", "gpu_names"), lineterminator="\n")
    writer.writeheader()
    for job in fleet.jobs:
        row = {name: getattr(job, name) for name in COLUMNS}
        row["findings"] = " ".join(finding.finding for finding in job.findings)
        row |= {"hosts": " ".join(job.hosts), "gpu_names": ", ".join(job.gpu_names)}
        writer.writerow({name: cell(value) for name, value in row.items()})
    return text.getvalue()


def as_metrics(fleet: Fleet) -> str:
    """Returns metrics in Prometheus's text format, for the textfile collector of its node exporter."""
    asked = datetime.fromisoformat(fleet.at).timestamp()
    whole: list[tuple[str, str, float | None]] = [
        ("asked_timestamp_seconds", "When the fleet was judged.", asked),
        ("window_seconds", "How far back was looked.", fleet.seconds),
        ("gpus", "GPUs seen.", fleet.gpus),
        ("gpu_seconds", "GPU-seconds that jobs held.", SECONDS_PER_HOUR * fleet.gpu_hours),
        ("free_gpu_seconds", "GPU-seconds that no known job held.", SECONDS_PER_HOUR * fleet.free_gpu_hours),
        ("wasted_gpu_seconds", "GPU-seconds that jobs wasted, at most.", SECONDS_PER_HOUR * fleet.wasted_gpu_hours),
        ("wasted_usd", "What they cost in dollars.", fleet.wasted_usd),
        ("wasted_usd_per_day", "Dollars that jobs waste in a day if they go on.", fleet.wasted_usd_a_day),
    ]
    lines = [
        line for name, text, value in whole for line in _metric(name, text, [] if value is None else [({}, value)])
    ]
    lines += _metric("jobs", "Jobs by verdict.", [({"verdict": one}, count) for one, count in fleet.verdicts.items()])
    for name, (metric, text, factor) in OF_JOBS.items():
        known = ((_labels(job), getattr(job, name)) for job in fleet.jobs if job.findings)
        lines += _metric(metric, text, [(labels, factor * value) for labels, value in known if value is not None])
    return "\n".join(lines) + "\n"


def _labels(job: FleetJob) -> dict[str, str]:
    # Not ``job``, which Prometheus sets itself.
    return {"holder": job.holder, "id": job.id, "owner": job.owner, "verdict": job.verdict}


def _metric(name: str, text: str, samples: Iterable[Sample]) -> list[str]:
    name = f"memorymark_fleet_{name}"
    lines = [f"{name}{_braces(labels)} {value!r}" for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", *lines] if lines else []


def _braces(labels: dict[str, str]) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(value: str) -> str:
    return one_line(value).replace("\\", "\\\\").replace('"', '\\"')
