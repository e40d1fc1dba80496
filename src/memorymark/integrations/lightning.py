# ruff: noqa: ARG002 - Lightning gives every callback the same arguments
"""A callback for Lightning that watches the training as ``memorymark watch`` does.

    trainer = Trainer(..., callbacks=[MemoryMarkCallback()])
    trainer.fit(model)

It subclasses the callback of ``lightning`` or ``pytorch_lightning``: the one already imported, else the installed one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from memorymark.integrations.callback import WatchedTraining
from memorymark.watch.report import Report

if TYPE_CHECKING:
    from lightning.pytorch import Callback
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class MemoryMarkCallback(Callback):
    """Prints at the end of the training what it wastes; ``report`` holds the same as an object at any time.

    ``show=False`` prints nothing.
    """

    def __init__(self, *, show: bool = True) -> None:
        self._training = WatchedTraining("Lightning", show=show)

    @property
    def report(self) -> Report | None:
        """The report on the training so far; ``None`` before it begins."""
        return self._training.report

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Starts watching in the process that reports."""
        if trainer.is_global_zero:
            self._training.begin()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports."""
        self._training.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Prints the report so far; Lightning also calls this on Ctrl-C."""
        self._training.end(exception)
