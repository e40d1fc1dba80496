"""``memorymark matrix``: where a training fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memorymark import answer as engine
from memorymark.cli import options as o
from memorymark.cli.output_files import require_folder, write_output
from memorymark.question.flat import make_question


@o.takes_options(("all_gpus", "max_batch"))
def matrix(
    asked: dict[str, Any],
    run: o.Run,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the table as one HTML page.", metavar="FILE")
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the table as a picture.", metavar="FILE")] = None,
) -> o.Answer:
    """Show where a training fits: the largest batch for each of several GPUs and recipes, predicted.

    The GPUs are those of --gpu, all of the catalog with --all-gpus, or else those with a price. The other options say
    how you train today. Exits with 3 if nothing fits anywhere.
    """
    from memorymark.render.matrix import print_matrix

    require_folder(html, "html")
    require_folder(svg, "svg")
    result = engine.matrix(make_question(asked), **run)
    if html is not None:
        from memorymark.render.html import page

        write_output(html, page(result), "html")
    if svg is not None:
        from memorymark.render.html import picture

        write_output(svg, picture(result), "svg")
    return o.Answer(result.to_dict(), lambda: print_matrix(result), exit_code=0 if result.max_batch_size else 3)
