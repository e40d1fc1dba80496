"""Records as the JSON documents of the HTTP interface."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from memorymark.history import Job, JobEvent, ListedJob
from memorymark.history.job import HEADLINE


def summary(job: ListedJob) -> dict[str, Any]:
    """A job as lists show it."""
    return {
        "id": job.id,
        "state": job.state,
        "origin": job.origin,
        "model_name": job.model_name,
        "target": job.target_name,
        "kind": job.kind,
        "recipe_words": job.recipe_words,
        "sample_words": job.sample_words,
        "current_batch_size": job.current_batch_size,
        "created_at": iso_time(job.created_at),
        "started_at": iso_time(job.started_at) if job.started_at else None,
        "finished_at": iso_time(job.finished_at) if job.finished_at else None,
        "error": job.error,
        "error_kind": job.error_kind,
        "headline": {name: job.headline.get(name) for name in HEADLINE} if job.headline else None,
    }


def whole(job: Job, position: int | None) -> dict[str, Any]:
    """A job with all there is to know."""
    return {
        **summary(ListedJob.of(job)),
        "position": position,
        "question": job.asked,
        "versions": job.versions,
        "machine": job.machine,
        "suggestions": job.suggestions,
        "result": job.result,
    }


def happened(event: JobEvent) -> dict[str, Any]:
    """An event of a job."""
    return {"id": event.number, "event": event.event, "at": iso_time(event.at), "data": event.data}


def iso_time(seconds: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
