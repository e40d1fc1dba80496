"""Jobs and events as JSON documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from memorymark.devices.machine import Machine
from memorymark.documents import ADDED_LATER, INLINE, Document, DocumentOf
from memorymark.errors import MemoryMarkError
from memorymark.history import Job, JobEvent, ListedJob
from memorymark.history.failures import error_in, error_of
from memorymark.messages import Dialect
from memorymark.question.flat import over_http
from memorymark.question.question import Question
from memorymark.results.result import Result
from memorymark.suggestions import Suggestion
from memorymark.units import iso_time


@dataclass(frozen=True, kw_only=True)
class JobView(Document):
    """A complete job."""

    listed: ListedJob = field(metadata=INLINE)
    position: int | None
    """Its place in the queue; null if it is not waiting."""
    question: Annotated[dict[str, Any], DocumentOf(Question)]
    """What was asked, with every default filled in."""
    options: dict[str, Any] | None
    """The fields of a POST /jobs body that asks the same question, without defaults; null if another version wrote the
    job and this one cannot read it.
    """
    versions: dict[str, str]
    """The versions of the libraries that answer it."""
    machine: Annotated[dict[str, Any], DocumentOf(Machine)]
    """The machine that answers it."""
    suggestions: Annotated[list[dict[str, Any]] | None, DocumentOf(list[Suggestion] | None)] = field(
        default=None, metadata=ADDED_LATER
    )
    """Changes that were checked to fit if the training does not, the best first. An empty list means that none was
    found, null that none was searched for.
    """
    problem: dict[str, Any] | None = field(default=None, metadata=ADDED_LATER)
    """The error as data, as in the answer to a call that fails; null if there is none."""
    result: Annotated[dict[str, Any] | None, DocumentOf(Result | None)]
    """The answer; null if there is none."""


def summary(job: ListedJob, dialect: Dialect) -> dict[str, Any]:
    """Returns a job as lists show it, its error in the reader's dialect."""
    error = error_of(job)
    return job.to_dict() if error is None else {**job.to_dict(), "error": error.said_in(dialect)}


def whole(job: Job, position: int | None, dialect: Dialect) -> dict[str, Any]:
    """Returns a complete job."""
    error = error_of(job)
    view = JobView(
        listed=ListedJob.of(job),
        position=position,
        question=job.asked,
        options=_options(job),
        versions=job.versions,
        machine=job.machine,
        suggestions=job.suggestions,
        problem=error.to_dict(dialect) if error is not None else None,
        result=job.result,
    )
    return view.to_dict() if error is None else {**view.to_dict(), "error": error.said_in(dialect)}


def happened(event: JobEvent, dialect: Dialect) -> dict[str, Any]:
    """Returns an event of a job."""
    data = event.data
    if event.event == "error" and data.get("error"):
        error = error_in(data)
        data = {**data, "error": error.said_in(dialect), "problem": error.to_dict(dialect)}
    return {"id": event.number, "event": event.event, "at": iso_time(event.at), "data": data}


def _options(job: Job) -> dict[str, Any] | None:
    """Returns the options that ask the same question, or ``None`` if this version cannot read it."""
    try:
        return over_http(job.question)
    except MemoryMarkError:
        return None
