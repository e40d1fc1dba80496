"""``memorymark analyze``: the main job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, TypeVar

import typer

from memorymark import engine
from memorymark.client import Client
from memorymark.commands import options as o
from memorymark.cost import Usage
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.keywords import parse_lengths
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question
from memorymark.request import Request
from memorymark.result import Result

Outcome = TypeVar("Outcome", Result, MemoryMarkError)


@o.takes_request
def analyze(
    request: Request,
    run: o.Run,
    batch_size: o.CurrentBatchSize = DEFAULT_CURRENT,
    seq_len: o.SeqLens = None,
    max_batch: Annotated[int | None, typer.Option("--max-batch", help="Look no further than this.")] = None,
    margin: Annotated[float, typer.Option("--margin", help="Part of the memory to leave free.")] = DEFAULT_MARGIN,
    price_per_hour: Annotated[
        float | None, typer.Option("--price-per-hour", help="Dollars for an hour of the GPU.")
    ] = None,
    hours_per_run: Annotated[
        float, typer.Option("--hours-per-run", help="What a run takes today.")
    ] = Usage.hours_per_run,
    runs_per_year: Annotated[float, typer.Option("--runs-per-year", help="Runs of one person.")] = Usage.runs_per_year,
    people: Annotated[int, typer.Option("--people", help="People who train.")] = Usage.people,
    all_gpus: Annotated[
        bool, typer.Option("--all-gpus", help="Predict for every GPU of the catalog: the fastest, the cheapest.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", help="Ask this service, such as http://gpu-box:5001.", envvar="MEMORYMARK_SERVER"),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="With --server: work it out again, even if known.")] = False,
    no_history: Annotated[bool, typer.Option("--no-history", help="Do not keep the result in the history.")] = False,
) -> o.Answer:
    """Find the largest batch that trains, the one worth using, and what it saves.

    Measures on the GPU here. Predicts for the one that --gpu names, and where there is none.
    """
    from memorymark.render.terminal import print_result

    one_length, several = parse_lengths(seq_len)
    question = Question(
        request=replace(request, seq_len=one_length),
        current_batch_size=batch_size,
        max_batch=max_batch,
        margin=margin,
        usage=Usage(hours_per_run=hours_per_run, runs_per_year=runs_per_year, people=people),
        price_per_hour=price_per_hour,
        all_gpus=all_gpus,
        seq_lens=several,
    )
    if server is not None:
        if no_history:
            raise UsageError("--no-history is for what is worked out here; the server keeps its own history, drop it.")
        limit = run["time_limit_seconds"]
        given_limit = None if limit == DEFAULT_TIME_LIMIT_SECONDS else limit
        client = Client(server)
        result = client.answer(question, fresh=fresh, time_limit_seconds=given_limit, on_event=run["on_event"])
    elif fresh:
        raise UsageError("--fresh is for --server; what is worked out here is always worked out anew.")
    else:
        result = engine.answer(question, **run) if no_history else _remembered(question, run)
    return o.Answer(result.to_dict(), lambda: print_result(result))


def _remembered(question: Question, run: o.Run) -> Result:
    """The answer, which is kept in the history; a history that cannot be written costs no answer."""
    try:
        from memorymark.history.recorder import Recorder
    except ImportError:  # inside a training environment without a database library
        return engine.answer(question, **run)

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
