"""How a command gets its answer: from a service, from the history, or worked out here and kept in the history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import typer

from memorymark import engine
from memorymark.client import Client
from memorymark.commands.options import Run
from memorymark.errors import MemoryMarkError, StoppedError, UsageError
from memorymark.events import Event, StageStarted, TrialFinished
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.question import Question
from memorymark.result import Result
from memorymark.trial import Trial

Outcome = TypeVar("Outcome", Result, MemoryMarkError)


class InterruptionError(StoppedError):
    """Somebody pressed Ctrl-C."""

    exit_code = 130


def ask(question: Question, run: Run, *, server: str | None, fresh: bool, no_history: bool) -> Result:
    """The answer to a question; Ctrl-C is an error with the trials so far."""
    trials: list[Trial] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TrialFinished):
            trials.append(event.trial)
        run["on_event"](event)

    try:
        return _ask(question, {**run, "on_event": on_event}, server=server, fresh=fresh, no_history=no_history)
    except KeyboardInterrupt:
        stopped = InterruptionError("stopped by Ctrl-C before there was an answer.")
        stopped.trials = trials
        raise stopped from None


def _ask(question: Question, run: Run, *, server: str | None, fresh: bool, no_history: bool) -> Result:
    if server is None:
        return engine.answer(question, **run) if no_history else _remembered(question, run, fresh=fresh)
    if no_history:
        raise UsageError("--no-history is for what is worked out here; the server keeps its own history, drop it.")
    limit = run["time_limit_seconds"]
    given_limit = None if limit == DEFAULT_TIME_LIMIT_SECONDS else limit
    client = Client(server)
    return client.answer(question, fresh=fresh, time_limit_seconds=given_limit, on_event=run["on_event"])


def _remembered(question: Question, run: Run, *, fresh: bool) -> Result:
    """The answer of the history, or else one that is kept there; a history that cannot be used costs no answer."""
    try:
        from memorymark.history.recorder import Recorder, known_answer
    except ImportError:  # inside a training environment without a database library
        return engine.answer(question, **run)

    known = None if fresh else known_answer(question)
    if known is not None:
        when = datetime.fromtimestamp(known.at).strftime("%Y-%m-%d %H:%M")
        said = f"answered from the history, job {known.job_id} of {when}; --fresh runs it again"
        run["on_event"](StageStarted("start", said))
        return known.result
    recorder = Recorder(question, run["on_event"])
    try:
        result = engine.answer(question, time_limit_seconds=run["time_limit_seconds"], on_event=recorder.on_event)
    except MemoryMarkError as error:
        _keep(recorder.failed, error)
        raise
    _keep(recorder.answered, result)
    return result


def _keep(write: Callable[[Outcome], None], outcome: Outcome) -> None:
    try:
        write(outcome)
    except MemoryMarkError as error:
        typer.echo(f"Not kept: {error}", err=True)
