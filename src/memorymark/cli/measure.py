"""``memorymark measure``: runs one trial."""

from __future__ import annotations

from memorymark import answer as engine
from memorymark.cli import options as o
from memorymark.question.question import DEFAULT_CURRENT
from memorymark.question.request import Request


@o.takes_request
def measure(request: Request, run: o.Run, batch_size: o.BatchSizeOption = DEFAULT_CURRENT) -> o.Answer:
    """Run one batch size and show its peaks, breakdown and throughput. Exits with 3 if it does not fit."""
    from memorymark.render.terminal import print_trial

    info, trial = engine.measure(request, batch_size, **run)
    return o.Answer(trial.to_dict(), lambda: print_trial(request, info, trial), exit_code=0 if trial.fits else 3)
