"""A job as lists show it, without its large documents."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from memorymark.documents import LEFT_OUT, Document, in_document
from memorymark.errors import ErrorKind
from memorymark.history.headline import Headline
from memorymark.history.job import Job, Origin, State
from memorymark.results.result import Kind
from memorymark.units import iso_time


@dataclass(frozen=True, kw_only=True)
class ListedJob(Document):
    """A job as lists show it; times are in ISO 8601, UTC."""

    id: str
    """12 hexadecimal digits."""
    origin: Origin
    """Who asked: ``http``, the command line (``cli``), or nobody, because a ``recording`` is played."""
    state: State
    """How far it is."""
    model: str = field(metadata=LEFT_OUT)
    model_name: str
    """The model as the caller named it."""
    target_name: str = field(metadata=LEFT_OUT)
    kind: Kind
    """The kind of its result, even while it has none."""
    recipe_words: str
    """The recipe in a few words."""
    sample_words: str | None
    """The requested sizes of a sample in words; null for the model's default."""
    current_batch_size: int
    """Today's batch."""
    memory_cap_bytes: int | None = field(metadata=LEFT_OUT)
    created_at: float
    started_at: float | None
    finished_at: float | None
    error: str | None
    """Why there is no answer, in a sentence; null if there is one, or may still be."""
    error_kind: ErrorKind | None
    """The kind of failure; null if it has not failed."""
    problem: dict[str, Any] | None
    """The error as data, as in the answer to a call that fails; null if there is none."""
    headline: dict[str, Any] | None

    @classmethod
    def of(cls, job: Job) -> ListedJob:
        """Makes the list entry of a job."""
        return cls(**{column.name: getattr(job, column.name) for column in fields(cls)})

    @property
    @in_document
    def target(self) -> str:
        """The target: a GPU of the catalog, a device of the server, or ``all``."""
        return self.target_name

    @property
    @in_document(name="created_at")
    def created(self) -> str:
        """When it was submitted."""
        return iso_time(self.created_at)

    @property
    @in_document(name="started_at")
    def started(self) -> str | None:
        """When it started."""
        return iso_time(self.started_at) if self.started_at else None

    @property
    @in_document(name="finished_at")
    def finished(self) -> str | None:
        """When it ended."""
        return iso_time(self.finished_at) if self.finished_at else None

    @property
    @in_document(name="headline")
    def shown_headline(self) -> Headline | None:
        """The numbers of its result."""
        return Headline.of(self.headline) if self.headline else None
