"""``memorymark advise``: what to change, ranked by what it gains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memorymark.advice import Advice
from memorymark.commands import options as o
from memorymark.commands.asking import ask
from memorymark.cost import Usage
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question
from memorymark.request import Request
from memorymark.training_code import Dialect


@o.takes_request
def advise(
    request: Request,
    run: o.Run,
    batch_size: o.CurrentBatchSize = DEFAULT_CURRENT,
    try_compile: Annotated[
        bool, typer.Option("--try-compile/--no-try-compile", help="Also run torch.compile: a minute or more.")
    ] = True,
    code: Annotated[Dialect, typer.Option("--code", help="What the code is shown for.")] = "pytorch",
    script: Annotated[
        Path | None, typer.Option("--script", help="Write the advice as a script that runs.", metavar="FILE")
    ] = None,
    max_batch: o.MaxBatch = None,
    margin: o.Margin = DEFAULT_MARGIN,
    price_per_hour: o.PricePerHour = None,
    hours_per_run: o.HoursPerRun = Usage.hours_per_run,
    runs_per_year: o.RunsPerYear = Usage.runs_per_year,
    people: o.People = Usage.people,
    server: o.Server = None,
    fresh: o.Fresh = False,
    no_history: o.NoHistory = False,
) -> o.Answer:
    """Find what to change: recipes ranked by what they gain, with what each costs and code to paste.

    The other options say how you train today. Recipes are predicted; on a GPU, the best few are run.
    """
    from memorymark.render.advice import print_advice
    from memorymark.render.terminal import make_console

    if script is not None and not script.absolute().parent.is_dir():
        raise UsageError(f"{script.parent} is no folder to write {script.name} into; make it first.")
    question = Question(
        request=request,
        current_batch_size=batch_size,
        max_batch=max_batch,
        margin=margin,
        usage=Usage(hours_per_run=hours_per_run, runs_per_year=runs_per_year, people=people),
        price_per_hour=price_per_hour,
        advise=True,
        try_compile=try_compile,
    )
    result = ask(question, run, server=server, fresh=fresh, no_history=no_history)
    assert isinstance(result, Advice)  # noqa: S101 - that is what was asked for
    missing = _write(script, result) if script is not None else ""
    return o.Answer(
        result.to_dict(),
        lambda: print_advice(result, make_console(), code),
        exit_code=1 if missing else 0,
        complaint=missing,
    )


def _write(file: Path, advice: Advice) -> str:
    """Writes the advice as a script; where there is none, says why: the report is worth having all the same."""
    from memorymark.advice.script import script_for

    try:
        file.write_text(script_for(advice), encoding="utf-8")
    except MemoryMarkError as error:
        return f"No script: {error}"
    except OSError as error:
        return f"No script: {file} cannot be written ({error.strerror or error}); name another file."
    return ""
