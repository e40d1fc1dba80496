"""``memorymark validate``: is the step what it claims to be, does torch.compile pay, is the prediction right?"""

from __future__ import annotations

import typer

from memorymark import validation
from memorymark.commands import options as o
from memorymark.question import DEFAULT_CURRENT
from memorymark.request import Request

app = typer.Typer(
    help="Check that what is measured is what it claims to be.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
@o.takes_request
def backward(request: Request, run: o.Run, batch_size: o.BatchSize = DEFAULT_CURRENT) -> o.Answer:
    """Compare the peaks of forward, forward and backward, and the full step. Exits with 1 on FAIL."""
    from memorymark.render.terminal import print_backward

    result = validation.validate_backward(request, batch_size, **run)
    return o.Answer(result.to_dict(), lambda: print_backward(result), exit_code=1 if result.verdict == "FAIL" else 0)


@app.command("compile")
@o.takes_request
def compile_(request: Request, run: o.Run, batch_size: o.BatchSize = DEFAULT_CURRENT) -> o.Answer:
    """Compare eager with torch.compile: time, memory, and after how many steps compiling has paid off."""
    from memorymark.render.terminal import print_compile

    result = validation.validate_compile(request, batch_size, **run)
    return o.Answer(result.to_dict(), lambda: print_compile(result))


@app.command()
@o.takes_request
def prediction(request: Request, run: o.Run) -> o.Answer:
    """Measure on the GPU here and predict the same sizes: how far off is the prediction?"""
    from memorymark.render.terminal import print_prediction_check

    result = validation.validate_prediction(request, **run)
    return o.Answer(result.to_dict(), lambda: print_prediction_check(result))
