"""``memorymark validate``: checks the measured step, whether torch.compile pays off, and the prediction."""

from __future__ import annotations

import typer

from memorymark.cli import options as o
from memorymark.cli.bare_flags import Command
from memorymark.engine import validate as validation
from memorymark.question.question import DEFAULT_CURRENT
from memorymark.question.request import Request

app = typer.Typer(
    help="Check that measurements and predictions are right.", no_args_is_help=True, rich_markup_mode=None
)


@app.command(cls=Command)
@o.takes_request
def backward(request: Request, run: o.Run, batch_size: o.BatchSizeOption = DEFAULT_CURRENT) -> o.Answer:
    """Compare the peaks of forward, forward and backward, and the full step. Exits with 1 on FAIL."""
    from memorymark.render.terminal import print_backward

    result = validation.validate_backward(request, batch_size, **run)
    return o.Answer(result.to_dict(), lambda: print_backward(result), exit_code=1 if result.verdict == "FAIL" else 0)


@app.command("compile", cls=Command)
@o.takes_request
def compile_(request: Request, run: o.Run, batch_size: o.BatchSizeOption = DEFAULT_CURRENT) -> o.Answer:
    """Compare eager with torch.compile: time, memory, and after how many steps compiling pays off."""
    from memorymark.render.terminal import print_compile

    result = validation.validate_compile(request, batch_size, **run)
    return o.Answer(result.to_dict(), lambda: print_compile(result))


@app.command(cls=Command)
@o.takes_request
def prediction(request: Request, run: o.Run) -> o.Answer:
    """Measure on this machine's GPU, predict the same sizes, and show how far off the prediction is."""
    from memorymark.render.terminal import print_prediction_check

    result = validation.validate_prediction(request, **run)
    return o.Answer(result.to_dict(), lambda: print_prediction_check(result))
