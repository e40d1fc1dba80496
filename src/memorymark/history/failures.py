"""Converts errors to the fields of a job and back."""

from __future__ import annotations

from typing import Any

from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    ErrorKind,
    HistoryError,
    MemoryMarkError,
    ServerError,
    StoppedError,
    UsageError,
    of_kind,
)
from memorymark.history.job import Job
from memorymark.history.listed import ListedJob
from memorymark.messages import Dialect


def kept(error: MemoryMarkError, dialect: Dialect) -> dict[str, Any]:
    """Returns the fields of a job that ended with an error, its sentence in the caller's dialect."""
    document = error.to_dict()
    return {
        "error": error.said_in(dialect),
        "error_kind": _kind(error),
        "suggestions": document["suggestions"] if isinstance(error, DoesNotFitError) else None,
        "problem": document,
    }


def error_of(job: Job | ListedJob) -> MemoryMarkError | None:
    """Returns the error that a job ended with, or ``None``."""
    if job.error is None:
        return None
    suggestions = job.suggestions if isinstance(job, Job) else None
    return error_in(
        {"suggestions": suggestions, "error": job.error, "error_kind": job.error_kind, "problem": job.problem}
    )


def error_in(fields: dict[str, Any]) -> MemoryMarkError:
    """Reads the error from fields that ``kept`` wrote; older versions wrote only a sentence."""
    try:
        return MemoryMarkError.from_dict(fields["problem"])
    except (AttributeError, LookupError, TypeError, ValueError):
        return of_kind(fields.get("error_kind"), fields.get("error") or "", fields.get("suggestions"))


def _kind(error: MemoryMarkError) -> ErrorKind | None:
    """Returns the kind of failure that an error is."""
    if isinstance(error, StoppedError):
        return "time_limit" if error.code == "time_limit" else None if error.code == "cancelled" else "stopped"
    kinds: dict[type[MemoryMarkError], ErrorKind] = {
        UsageError: "usage",
        DoesNotFitError: "does_not_fit",
        CannotPredictError: "cannot_predict",
        HistoryError: "internal",
        ServerError: "internal",
    }
    return next((kind for each, kind in kinds.items() if isinstance(error, each)), "worker")
