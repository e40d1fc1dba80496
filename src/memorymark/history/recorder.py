"""Keeps what the command line works out, so that it can be looked up later."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from memorymark.comparison import Comparison
from memorymark.errors import MemoryMarkError
from memorymark.events import Event, OnEvent
from memorymark.history.job import JobEvent, error_kind, new_job, suggestions_of
from memorymark.history.store import Store, default_url
from memorymark.question import Question
from memorymark.result import Result
from memorymark.sweep import Sweep
from memorymark.target import default_gpu_target
from memorymark.trial import Source


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
            request = replace(self._question.request, target=default_gpu_target(target))
            self._question = replace(self._question, request=request)
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
        store = Store(default_url())
        store.add(job, self._events)
        store.close()


def _source(result: Result) -> Source | None:
    """Whether what is for one GPU was measured or predicted; ``None`` if it is for all of them."""
    if isinstance(result, Comparison):
        return None
    return result.plan.info.source if isinstance(result, Sweep) else result.info.source
