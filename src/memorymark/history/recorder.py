"""Records the command line's results in the history, to look them up later or to reuse them."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from memorymark.devices.machine import lacks_accelerator
from memorymark.devices.resolve import where_no_gpu_is
from memorymark.errors import MemoryMarkError
from memorymark.events import Event, OnEvent
from memorymark.history.failures import kept
from memorymark.history.job import JobEvent, new_job
from memorymark.history.store import Store, default_url
from memorymark.question.question import Question
from memorymark.results.result import Result, info_of, result_from_dict


@dataclass(frozen=True)
class KnownAnswer:
    """A result from the history, with its job and time in seconds since 1970."""

    result: Result
    job_id: str
    at: float


def known_answer(question: Question) -> KnownAnswer | None:
    """Returns the latest answer to the question from the same versions and, if measured, this machine, or ``None``."""
    if lacks_accelerator():
        question = _predicted(question)
    try:
        with closing(Store(default_url(), must_exist=True)) as store:
            job = store.answered(new_job(question, "cli").key)
        if job is None or job.result is None:
            return None
        return KnownAnswer(result_from_dict(job.result), job.id, job.finished_at or job.created_at)
    except (MemoryMarkError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # without a readable history, the question is answered anew


def _predicted(question: Question) -> Question:
    """Returns the question as answered without a GPU: it predicts for the default GPU unless it names one."""
    if question.compares_gpus:
        return question
    return replace(question, request=replace(question.request, target=where_no_gpu_is(question.request.target)))


class Recorder:
    """Collects the events of one analysis and writes them to the history at its end."""

    def __init__(self, question: Question, on_event: OnEvent) -> None:
        self._question, self._on_event = question, on_event
        self._started_at = time.time()
        self._events: list[JobEvent] = []

    def on_event(self, event: Event) -> None:
        """Records the event and passes it on."""
        facts = event.to_dict()
        self._note(facts.pop("event"), facts)
        self._on_event(event)

    def answered(self, result: Result) -> None:
        """Writes the result."""
        self._note("result", {})
        info = info_of(result)
        if info is not None and info.source == "predicted":
            self._question = _predicted(self._question)
        self._write(state="done", result=result.to_dict())

    def failed(self, error: MemoryMarkError) -> None:
        """Writes the error."""
        why = kept(error, "command_line")
        self._note("error", {"state": "failed", **why})
        self._write(state="failed", **why)

    def _note(self, event: str, data: dict[str, Any]) -> None:
        self._events.append(JobEvent(len(self._events) + 1, event, data, time.time()))

    def _write(self, **outcome: Any) -> None:
        job = replace(
            new_job(self._question, "cli", **outcome),
            created_at=self._started_at,
            started_at=self._started_at,
            finished_at=time.time(),
        )
        with closing(Store(default_url())) as store:
            store.add(job, self._events)
