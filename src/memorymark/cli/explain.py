"""``memorymark explain``: where the memory of a step goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memorymark import answer as engine
from memorymark.cli import options as o
from memorymark.cli.output_files import require_folder, write_output
from memorymark.question.question import DEFAULT_CURRENT
from memorymark.question.request import Request


@o.takes_request
def explain(
    request: Request,
    run: o.Run,
    batch_size: o.BatchSizeOption = DEFAULT_CURRENT,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the pictures and tables as one HTML page.", metavar="FILE")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write the step's memory as a picture.", metavar="FILE")
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", help="Write what PyTorch's memory viewer opens, a pickle.", metavar="FILE"),
    ] = None,
) -> o.Answer:
    """Show where the memory of a step goes: through the step, and module by module at its peak.

    Measures on this machine's GPU. Predicts for the GPU that --gpu names, or if this machine has none. Exits with 3 if
    the batch does not fit.
    """
    from memorymark.render.explanation import print_explanation

    for file, option in ((html, "html"), (svg, "svg"), (snapshot, "snapshot")):
        require_folder(file, option)
    result = engine.explain(request, batch_size, snapshot=snapshot, **run)
    if html is not None:
        from memorymark.render.html import page

        write_output(html, page(result), "html")
    if svg is not None:
        from memorymark.render.html import picture

        write_output(svg, picture(result), "svg")
    return o.Answer(result.to_dict(), lambda: print_explanation(result), exit_code=0 if result.trial.fits else 3)
