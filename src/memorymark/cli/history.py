"""``memorymark history`` and ``memorymark compare``: show past results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memorymark.cli import options as o
from memorymark.cli.output_files import write_output
from memorymark.errors import HistoryError, UsageError
from memorymark.messages import Message
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.result import Result, result_from_dict

if TYPE_CHECKING:
    from memorymark.history import Job, Store

Database = Annotated[str, typer.Option("--database", help="The URL of the history's database; defaults to yours.")]


MOST_LISTED = 10_000


def history(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Show this job; the start of its id is enough.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Only this model.", autocompletion=o.complete_model)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="The most jobs to list.", min=1, max=MOST_LISTED)] = 20,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Write the job with its events, for serve --replay to play."),
    ] = None,
    database: Database = "",
    as_json: o.Json = False,
) -> None:
    """List past analyses, the latest first, or show one again."""
    from memorymark.history.views import whole
    from memorymark.render.json import print_json

    if record is not None and job is None:
        raise UsageError(
            Message("{record} needs the job to record; `memorymark history` lists them."), code="missing", field="job"
        )
    store = open_history(database)
    if job is None:
        _list(store, model, limit, as_json=as_json)
        return
    one = store.find(job)
    if record is not None:
        _record(one, store, record, as_json=as_json)
    elif as_json:
        print_json(whole(one, None, "command_line"))
    else:
        _show(one)


def compare(
    jobs: Annotated[list[str], typer.Argument(metavar="JOBS...", help="Ids, or their starts, as history lists them.")],
    database: Database = "",
    as_json: o.Json = False,
) -> None:
    """Put two or more past analyses side by side."""
    from memorymark.render.history import print_side_by_side
    from memorymark.render.json import print_json

    if len(jobs) < 2:
        raise UsageError(
            "compare takes two or more jobs; `memorymark history` lists them.", code="missing", field="jobs"
        )
    store = open_history(database)
    analyses: dict[str, Analysis] = {}
    for found in map(store.find, jobs):
        if found.id in analyses:
            raise UsageError(f"job {found.id} is named twice; name another to compare it with.")
        analyses[found.id] = _analysis(found)
    if as_json:
        documents = {job_id: analysis.to_dict() for job_id, analysis in analyses.items()}
        print_json({"kind": "side_by_side", "analyses": documents})
    else:
        print_side_by_side(analyses)


def open_history(database: str) -> Store:
    """Opens the history to read: the one given, or the user's own, which may still be empty."""
    from memorymark.history import Store, default_url

    return Store(database or default_url(), must_exist=bool(database))


def _list(store: Store, model: str | None, limit: int, *, as_json: bool) -> None:
    from memorymark.history.views import summary
    from memorymark.question.model_names import read_name, short_id
    from memorymark.render.history import print_history
    from memorymark.render.json import print_json

    wanted = short_id(model) if model else None
    found = store.jobs(model=wanted, limit=limit)
    if wanted is not None and not found:
        read_name(wanted)  # raises with suggestions if the name is a typo
    if as_json:
        print_json({"kind": "jobs", "jobs": [summary(one, "command_line") for one in found]})
    else:
        print_history(found)


def _show(job: Job) -> None:
    from memorymark.render.terminal import print_result

    print_result(result_of(job))


def _record(job: Job, store: Store, file: Path, *, as_json: bool) -> None:
    import json

    from memorymark.history.recording import Recording
    from memorymark.render.json import print_json
    from memorymark.render.plain import one_line

    if job.result is not None:
        result_of(job)  # raises if this version cannot read it
    recording = Recording.of(job, store.events(job.id))
    write_output(file, json.dumps(recording.to_dict(), indent=1) + "\n", "record")
    if as_json:
        print_json({"kind": "recorded", "recording": str(file)})
    else:
        typer.echo(one_line(str(file)))


def result_of(job: Job) -> Result:
    """Returns the result of a job of the history; raises if it has none."""
    if job.result is None:
        raise UsageError(_why_none(job))
    try:
        return result_from_dict(job.result)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        raise HistoryError(
            f"another version of MemoryMark wrote job {job.id}, and this one cannot read it; update this one."
        ) from None


def _why_none(job: Job) -> Message:
    from memorymark.history.failures import error_of

    error = error_of(job)
    if error is None:
        return Message("job {job} has no result: it is {state}.", job=job.id, state=job.state)
    return Message("job {job} has no result: it is {state}, {why}", job=job.id, state=job.state, why=error.words)


def _analysis(job: Job) -> Analysis:
    result = result_of(job)
    if not isinstance(result, Analysis):
        what = "is advice" if isinstance(result, Advice) else "already compares several"
        raise UsageError(f"job {job.id} {what}; `memorymark history {job.id}` shows it.")
    return result
