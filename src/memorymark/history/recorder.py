"""Keeps what the command line works out, so that it can be looked up later, or answer the same question again."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from memorymark.comparison import Comparison
from memorymark.errors import MemoryMarkError
from memorymark.events import Event, OnEvent
from memorymark.history.job import JobEvent, error_kind, new_job, suggestions_of
from memorymark.history.store import Store, default_url
from memorymark.machine import lacks_accelerator
from memorymark.question import Question
from memorymark.result import Result, result_from_dict
from memorymark.sweep import Sweep
from memorymark.target import default_gpu_target
from memorymark.trial import Source


@dataclass(frozen=True)
class KnownAnswer:
    """An answer of the history: the result, the job that found it, and when that was, in seconds since 1970."""

    result: Result
    job_id: str
    at: float


def known_answer(question: Question) -> KnownAnswer | None:
    """The latest answer to the same question, by the same versions and, if it was measured, on this machine."""
    target = question.request.target
    is_open = target.gpu is None and target.device == "auto" and not question.all_gpus
    if is_open and lacks_accelerator():
        question = _predicted(question)
    try:
        with closing(Store(default_url(), must_exist=True)) as store:
            job = store.answered(new_job(question, "cli").key)
        if job is None or job.result is None:
            return None
        return KnownAnswer(result_from_dict(job.result), job.id, job.finished_at or job.created_at)
    except (MemoryMarkError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # there is no history, or what it holds cannot be read: it is worked out as if there were none


def _predicted(question: Question) -> Question:
    """The question as it is answered where there is no GPU: by a prediction for the default one."""
    request = question.request
    return replace(question, request=replace(request, target=default_gpu_target(request.target)))


class Recorder:
    """Listens to one analysis; its end is written to the history in one piece."""

    def __init__(self, question: Question, on_event: OnEvent) -> None:
        self._question, self._on_event = question, on_event
        self._started_at = time.time()
        self._events: list[JobEvent] = []

    def on_event(self, event: Event) -> None:
        """Notes the event and passes it on."""
        facts = event.to_dict()
        self._note(facts.pop("event"), facts)
        self._on_event(event)

    def answered(self, result: Result) -> None:
        """Writes down the answer."""
        self._note("result", {})
        target = self._question.request.target
        if _source(result) == "predicted" and target.gpu is None:
            self._question = _predicted(self._question)
        self._write(state="done", result=result.to_dict())

    def failed(self, error: MemoryMarkError) -> None:
        """Writes down why there is none."""
        why = {"error": error.sentence, "error_kind": error_kind(error), "suggestions": suggestions_of(error)}
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


def _source(result: Result) -> Source | None:
    """Whether what is for one GPU was measured or predicted; ``None`` if it is for all of them."""
    if isinstance(result, Comparison):
        return None
    return result.plan.info.source if isinstance(result, Sweep) else result.info.source
