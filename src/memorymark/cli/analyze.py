"""``memorymark analyze``: the main job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memorymark.cli import options as o
from memorymark.cli.asking import ask
from memorymark.question.flat import make_question


@o.takes_options(o.OF_ANALYSIS)
def analyze(
    asked: dict[str, Any],
    run: o.Run,
    seq_len: o.SeqLens = None,
    every_gpu: Annotated[
        bool, typer.Option("--every-gpu", help="With --all-gpus, show every GPU in the table, not only a choice.")
    ] = False,
    server: o.Server = None,
    fresh: o.Fresh = False,
    no_history: o.NoHistory = False,
) -> o.Answer:
    """Find the largest batch that trains, the one worth using, and what it saves.

    Measures on this machine's GPU. Predicts for the GPU that --gpu names, or if this machine has none.
    """
    from memorymark.render.terminal import print_result

    question = make_question({**asked, **o.parse_lengths(seq_len)})
    result = ask(question, run, server=server, fresh=fresh, no_history=no_history)
    return o.Answer(result.to_dict(), lambda: print_result(result, every_gpu=every_gpu))
