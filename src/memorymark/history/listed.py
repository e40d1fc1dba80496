"""A job as lists show it: columns of the history and no documents, which may be large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memorymark.history.job import ErrorKind, Job, Kind, Origin, State


@dataclass(frozen=True, kw_only=True)
class ListedJob:
    """What a list shows of a job; the fields are those of ``Job``."""

    id: str
    origin: Origin
    state: State
    model: str
    model_name: str
    target_name: str
    kind: Kind
    recipe_words: str
    sample_words: str | None
    current_batch_size: int
    memory_cap_bytes: int | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    error: str | None
    error_kind: ErrorKind | None
    headline: dict[str, Any] | None

    @classmethod
    def of(cls, job: Job) -> ListedJob:
        """The job as a list shows it."""
        return cls(
            id=job.id,
            origin=job.origin,
            state=job.state,
            model=job.model,
            model_name=job.model_name,
            target_name=job.target_name,
            kind=job.kind,
            recipe_words=job.recipe_words,
            sample_words=job.sample_words,
            current_batch_size=job.current_batch_size,
            memory_cap_bytes=job.memory_cap_bytes,
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            error=job.error,
            error_kind=job.error_kind,
            headline=job.headline,
        )
