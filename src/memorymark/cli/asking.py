"""Answers a command's question: from a service, from the history, or by running it here and recording it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import typer

from memorymark import answer as engine
from memorymark.cli.options import Run
from memorymark.client import Client
from memorymark.errors import MemoryMarkError, StoppedError, UsageError
from memorymark.events import HeardTrials, StageStarted
from memorymark.messages import Message
from memorymark.question.question import Question
from memorymark.results.result import Result
from memorymark.suggestions import without
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS

Outcome = TypeVar("Outcome", Result, MemoryMarkError)


class InterruptionError(StoppedError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def ask(question: Question, run: Run, *, server: str | None, fresh: bool, no_history: bool) -> Result:
    """Answers a question; Ctrl-C raises an error with the trials so far."""
    heard = HeardTrials(run["on_event"])
    try:
        return _ask(question, {**run, "on_event": heard.hear}, server=server, fresh=fresh, no_history=no_history)
    except KeyboardInterrupt:
        stopped = InterruptionError("stopped by Ctrl-C before there was an answer.")
        stopped.trials = heard.trials
        raise stopped from None


def _ask(question: Question, run: Run, *, server: str | None, fresh: bool, no_history: bool) -> Result:
    if server is None:
        return engine.answer(question, **run) if no_history else _remembered(question, run, fresh=fresh)
    if no_history:
        raise UsageError(
            Message("{no_history} does not apply to a server, which keeps its own history; drop it."),
            code="conflict",
            field="no_history",
            given=True,
            proposals=[without("no_history", usual=False)],
        )
    limit = run["time_limit_seconds"]
    given_limit = None if limit == DEFAULT_TIME_LIMIT_SECONDS else limit
    client = Client(server)
    return client.answer(question, fresh=fresh, time_limit_seconds=given_limit, on_event=run["on_event"])


def _remembered(question: Question, run: Run, *, fresh: bool) -> Result:
    """Answers from the history, or runs the question and records it; works without a usable history too."""
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
        typer.echo(f"Not kept: {error.said_in('command_line', with_detail=True)}", err=True)
