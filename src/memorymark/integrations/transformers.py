# ruff: noqa: ARG002 - transformers gives every callback the same arguments
"""A callback for transformers' Trainer that watches the training as ``memorymark watch`` does.

trainer = Trainer(..., callbacks=[MemoryMarkCallback()])
trainer.train()
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from memorymark.integrations.callback import WatchedTraining
from memorymark.watch.report import Report


class MemoryMarkCallback(TrainerCallback):
    """Prints at the end of the training what it wastes; ``report`` holds the same as an object at any time.

    ``show=False`` prints nothing.
    """

    def __init__(self, *, show: bool = True) -> None:
        self._training = WatchedTraining("Trainer", show=show)

    @property
    def report(self) -> Report | None:
        """The report on the training so far; ``None`` before it begins."""
        return self._training.report

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts watching in the process that reports."""
        if state.is_world_process_zero:
            self._training.begin()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Reports."""
        self._training.end()
