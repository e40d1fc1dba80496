"""``memorymark analyze``: the main job."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from memorymark.commands import options as o
from memorymark.commands.asking import ask
from memorymark.cost import Usage
from memorymark.keywords import parse_lengths
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question
from memorymark.request import Request


@o.takes_request
def analyze(
    request: Request,
    run: o.Run,
    batch_size: o.CurrentBatchSize = DEFAULT_CURRENT,
    seq_len: o.SeqLens = None,
    max_batch: o.MaxBatch = None,
    margin: o.Margin = DEFAULT_MARGIN,
    price_per_hour: o.PricePerHour = None,
    hours_per_run: o.HoursPerRun = Usage.hours_per_run,
    runs_per_year: o.RunsPerYear = Usage.runs_per_year,
    people: o.People = Usage.people,
    all_gpus: Annotated[
        bool, typer.Option("--all-gpus", help="Predict for every GPU of the catalog: the fastest, the cheapest.")
    ] = False,
    server: o.Server = None,
    fresh: o.Fresh = False,
    no_history: o.NoHistory = False,
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
    result = ask(question, run, server=server, fresh=fresh, no_history=no_history)
    return o.Answer(result.to_dict(), lambda: print_result(result))
