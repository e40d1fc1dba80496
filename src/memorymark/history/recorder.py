"""Keeps what the command line works out, so that it can be looked up later."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from memorymark.errors import MemoryMarkError
from memorymark.events import Event, OnEvent
from memorymark.history.job import JobEvent, error_kind, new_job
from memorymark.history.store import Store, default_url
from memorymark.question import Question
from memorymark.result import Result


class Recorder:
    """Listens to one analysis; its end is written to the history in one piece."""

    def __init__(self, question: Question, on_event: OnEvent) -> None:
        self._job = replace(new_job(question, "cli"), state="running", started_at=time.time())
        self._on_event = on_event
        self._events: list[JobEvent] = []

    def on_event(self, event: Event) -> None:
        """Notes the event and passes it on."""
        facts = event.to_dict()
        self._note(facts.pop("event"), facts)
        self._on_event(event)

    def answered(self, result: Result) -> None:
        """Writes down the answer."""
        self._note("result", {})
        self._write(state="done", result=result.to_dict())

    def failed(self, error: MemoryMarkError) -> None:
        """Writes down why there is none."""
        kind = error_kind(error)
        self._note("error", {"state": "failed", "error": str(error), "error_kind": kind})
        self._write(state="failed", error=str(error), error_kind=kind)

    def _note(self, event: str, data: dict[str, Any]) -> None:
        self._events.append(JobEvent(len(self._events) + 1, event, data, time.time()))

    def _write(self, **outcome: Any) -> None:
        store = Store(default_url())
        store.add(replace(self._job, finished_at=time.time(), **outcome), self._events)
        store.close()
