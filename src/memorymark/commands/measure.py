"""``memorymark measure``: one trial."""

from __future__ import annotations

import typer

from memorymark import engine
from memorymark.analysis import DEFAULT_CURRENT
from memorymark.commands import options as o
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.request import Request


@o.takes_request
def measure(
    request: Request,
    batch_size: o.BatchSize = DEFAULT_CURRENT,
    time_limit: o.TimeLimit = DEFAULT_TIME_LIMIT_SECONDS,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run one batch size: peaks, breakdown, throughput. Exits with 3 if it does not fit."""
    from memorymark.render.json import print_json
    from memorymark.render.progress import Progress
    from memorymark.render.terminal import print_trial

    with Progress(quiet=quiet) as progress:
        info, trial = engine.measure(request, batch_size, time_limit_seconds=time_limit, on_event=progress.on_event)
    if as_json:
        print_json(trial.to_dict())
    else:
        print_trial(request, info, trial)
    if not trial.fits:
        raise typer.Exit(3)
