"""``memorymark analyze``: the main job."""

from __future__ import annotations

from typing import Annotated

import typer

from memorymark import engine
from memorymark.commands import options as o
from memorymark.comparison import Comparison
from memorymark.cost import Usage
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question
from memorymark.request import Request


@o.takes_request
def analyze(
    request: Request,
    run: o.Run,
    batch_size: o.CurrentBatchSize = DEFAULT_CURRENT,
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
) -> o.Answer:
    """Find the largest batch that trains, the one worth using, and what it saves.

    Measures on the GPU here. Predicts for the one that --gpu names, and where there is none.
    """
    from memorymark.render.terminal import print_analysis, print_comparison

    question = Question(
        request=request,
        current_batch_size=batch_size,
        max_batch=max_batch,
        margin=margin,
        usage=Usage(hours_per_run=hours_per_run, runs_per_year=runs_per_year, people=people),
        price_per_hour=price_per_hour,
        all_gpus=all_gpus,
    )
    result = engine.answer(question, **run)
    if isinstance(result, Comparison):
        return o.Answer(result.to_dict(), lambda: print_comparison(result))
    return o.Answer(result.to_dict(), lambda: print_analysis(result))
