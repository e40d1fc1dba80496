"""``memorymark validate``: is the step what it claims to be, and does torch.compile pay?"""

from __future__ import annotations

import typer

from memorymark import validation
from memorymark.analysis import DEFAULT_CURRENT
from memorymark.commands import options as o
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.request import Request

app = typer.Typer(help="Check that what is measured is what it claims to be.", no_args_is_help=True)


@app.command()
@o.takes_request
def backward(
    request: Request,
    batch_size: o.BatchSize = DEFAULT_CURRENT,
    time_limit: o.TimeLimit = DEFAULT_TIME_LIMIT_SECONDS,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare the peaks of forward, forward and backward, and the full step. Exits with 1 on FAIL."""
    from memorymark.render.json import print_json
    from memorymark.render.progress import Progress
    from memorymark.render.terminal import print_backward

    with Progress(quiet=quiet) as progress:
        result = validation.validate_backward(request, batch_size, time_limit, progress.on_event)
    if as_json:
        print_json(result.to_dict())
    else:
        print_backward(result)
    if result.verdict == "FAIL":
        raise typer.Exit(1)


@app.command("compile")
@o.takes_request
def compile_(
    request: Request,
    batch_size: o.BatchSize = DEFAULT_CURRENT,
    time_limit: o.TimeLimit = DEFAULT_TIME_LIMIT_SECONDS,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare eager with torch.compile: time, memory, and after how many steps compiling has paid off."""
    from memorymark.render.json import print_json
    from memorymark.render.progress import Progress
    from memorymark.render.terminal import print_compile

    with Progress(quiet=quiet) as progress:
        result = validation.validate_compile(request, batch_size, time_limit, progress.on_event)
    if as_json:
        print_json(result.to_dict())
    else:
        print_compile(result)
