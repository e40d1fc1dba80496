"""``memorymark predict``: one trial without a GPU."""

from __future__ import annotations

from memorymark import engine
from memorymark.commands import options as o
from memorymark.question import DEFAULT_CURRENT
from memorymark.request import Request


@o.takes_request
def predict(request: Request, run: o.Run, batch_size: o.BatchSize = DEFAULT_CURRENT) -> o.Answer:
    """Predict one batch size for a GPU you need not have. Exits with 3 if it does not fit."""
    from memorymark.render.terminal import print_trial

    info, trial = engine.predict(request, batch_size, **run)
    document = {
        **trial.to_dict(),
        "gpu_name": info.device_name,
        "capacity_bytes": info.capacity_bytes,
        "unknown_operations": list(info.unknown_operations),
    }
    return o.Answer(document, lambda: print_trial(request, info, trial), exit_code=0 if trial.fits else 3)
