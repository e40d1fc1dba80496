"""Recordings: jobs that have ended, in files that ``memorymark serve --replay`` plays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from memorymark.devices.machine import Machine
from memorymark.devices.resolve import on_device
from memorymark.documents import Document, DocumentOf, Record
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.events import EVENTS, Event
from memorymark.history.job import Job, JobEvent
from memorymark.question.flat import over_http
from memorymark.question.question import Question
from memorymark.results.result import Result, info_of, result_from_dict
from memorymark.results.trial import Source
from memorymark.units import iso_time

FORMAT = 1
HOW_TO_RECORD = "`memorymark history JOB --record FILE` writes one"


@dataclass(frozen=True)
class Moment(Record):
    """An event of a recorded job, and when it happened in ``seconds`` after the job started."""

    seconds: float
    event: str
    data: dict[str, Any]

    @cached_property
    def happened(self) -> Event:
        """What happened."""
        return EVENTS[self.event].from_dict(self.data)


@dataclass(frozen=True, kw_only=True)
class Recording(Record):
    """A job that has ended, with all that happened to it.

    ``format`` is the version of this document. ``seconds`` is how long the job took. ``machine`` and ``versions`` are
    those that answered it; the name of the host is left out, since recordings are made to be shown. ``note`` says what
    else a viewer must know. ``result`` or ``problem`` is how the job ended.
    """

    kind: ClassVar[Literal["recording"]] = "recording"

    format: int = FORMAT
    recorded_at: str
    seconds: float
    note: str = ""
    machine: dict[str, Any]
    versions: dict[str, str]
    question: dict[str, Any]
    moments: list[Moment]
    result: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None

    @classmethod
    def of(cls, job: Job, events: Sequence[JobEvent]) -> Recording:
        """Makes the recording of a job; raises if it has not ended by itself, or cannot be asked for elsewhere."""
        if job.state not in ("done", "failed") or job.started_at is None or job.finished_at is None:
            raise UsageError(
                f"job {job.id} is {job.state}, so there is nothing to play; record one that is done or failed.",
                code="not_applicable",
                field="record",
            )
        question = job.question
        if question.request.runs_code:
            raise UsageError(
                f"job {job.id} is about a model with code of its own, which a recording cannot bring along; "
                "record a model of the catalog, a Hugging Face id or a config.",
                code="not_applicable",
                field="record",
            )
        result = None if job.result is None else result_from_dict(job.result)
        moments = [Moment(one.at - job.started_at, one.event, one.data) for one in events if one.event in EVENTS]
        return cls(
            recorded_at=iso_time(job.finished_at),
            seconds=job.finished_at - job.started_at,
            machine={**job.machine, "host": ""},
            versions=job.versions,
            question=_placed(question, result).to_dict(),
            moments=moments,
            result=job.result,
            problem=job.problem,
        )

    @cached_property
    def asked(self) -> Question:
        """The question that the job answered."""
        return Question.from_dict(self.question)

    def outcome(self) -> Result:
        """Returns the result; raises the error, if the job ended with one."""
        if self.result is None:
            raise MemoryMarkError.from_dict(self.problem or {})
        return result_from_dict(self.result)

    @property
    def facts(self) -> RecordingFacts:
        """What it is a recording of, where and when it was made."""
        info = None if self.result is None else info_of(result_from_dict(self.result))
        return RecordingFacts(
            model_name=self.asked.request.entry.id,
            gpu_name=info.device_name if info is not None else None,
            source=info.source if info is not None else None,
            recorded_at=self.recorded_at,
            seconds=self.seconds,
            note=self.note,
            machine=self.machine,
            versions={**self.versions, **(info.versions if info is not None else {})},
            options=over_http(self.asked),
        )


@dataclass(frozen=True, kw_only=True)
class RecordingFacts(Document):
    """What a recording is of, where and when it was made."""

    model_name: str
    """The model."""
    gpu_name: str | None
    """The GPU; null for a comparison of all GPUs, and for a job that failed."""
    source: Source | None
    """Whether the numbers were measured or predicted; null likewise."""
    recorded_at: str
    """When the job ended."""
    seconds: float
    """How long the job took."""
    note: str
    """What else a viewer must know."""
    machine: Annotated[dict[str, Any], DocumentOf(Machine)]
    """The machine that answered, without the name of the host."""
    versions: dict[str, str]
    """The versions of the libraries that answered."""
    options: dict[str, Any]
    """The fields of a POST /jobs body that plays it."""


def read_recording(path: Path) -> Recording:
    """Reads a recording; raises an error that says what is wrong with the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}", "not_readable") from None
    except ValueError:
        raise _unusable(path, "is not a recording") from None
    if not isinstance(document, dict) or document.get("kind") != Recording.kind:
        raise _unusable(path, "is not a recording")
    if document.get("format") != FORMAT:
        raise _unusable(path, "was written by another version of MemoryMark, which this one cannot read")
    try:
        recording = Recording.from_dict(document)
        _require_complete(recording)
    except (MemoryMarkError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        raise _unusable(path, "is a recording that is damaged, or that another version of MemoryMark wrote") from None
    return recording


def _require_complete(recording: Recording) -> None:
    """Reads every part, so that a damaged file is refused at the start and not in the middle of a talk."""
    for moment in recording.moments:
        _ = moment.happened
    _ = recording.facts
    if recording.result is None:
        MemoryMarkError.from_dict(recording.problem or {})


def _unusable(path: Path, what: str, code: Literal["not_readable", "malformed"] = "malformed") -> UsageError:
    return UsageError(f"{path} {what}; {HOW_TO_RECORD}.", code=code, field="replay", given=path)


def _placed(question: Question, result: Result | None) -> Question:
    """Returns the question with the device that it was measured on in place of ``auto``."""
    info = None if result is None else info_of(result)
    if info is None or info.source == "predicted":
        return question
    target = on_device(question.request.target, info.device_kind)
    return replace(question, request=replace(question.request, target=target))
