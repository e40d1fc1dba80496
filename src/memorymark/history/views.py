"""Records as the JSON documents of the HTTP interface."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from memorymark.history import Job, JobEvent


def summary(job: Job, headline: dict[str, Any] | None) -> dict[str, Any]:
    """A job as lists show it."""
    return {
        "id": job.id,
        "state": job.state,
        "origin": job.origin,
        "model_name": job.asked["request"]["model"],
        "target": job.target_name,
        "created_at": iso_time(job.created_at),
        "started_at": iso_time(job.started_at) if job.started_at else None,
        "finished_at": iso_time(job.finished_at) if job.finished_at else None,
        "error": over_http(job.error) if job.error else None,
        "error_kind": job.error_kind,
        "headline": headline,
    }


def whole(job: Job, position: int | None) -> dict[str, Any]:
    """A job with all there is to know."""
    return {
        **summary(job, job.headline),
        "position": position,
        "question": job.asked,
        "versions": job.versions,
        "machine": job.machine,
        "result": job.result,
    }


def happened(event: JobEvent) -> dict[str, Any]:
    """An event of a job."""
    return {"id": event.number, "event": event.event, "at": iso_time(event.at), "data": event.data}


def iso_time(seconds: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")


def over_http(sentence: str) -> str:
    """A sentence that names options of the command line, with the names of the HTTP fields: --seq-len is seq_len."""
    return re.sub(r"--([a-z][a-z0-9-]*)", lambda option: option[1].replace("-", "_"), sentence)
