"""How optimizers update the parameters of a step that is traced."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from memorymark.prediction.tracing.tracer import Tracer
from memorymark.training.step import TrainingStep


def update_all_at_once(step: TrainingStep) -> None:
    """Makes optimizers update all parameters at once, torch's default on a GPU except for Adafactor."""
    eager = (optimizer for optimizer in step.optimizers if not isinstance(optimizer, torch.optim.Adafactor))
    for group in (group for optimizer in eager for group in optimizer.param_groups):
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


def note_updates(step: TrainingStep, tracer: Tracer) -> None:
    """Lets the tracer know which operations are the optimizers'."""
    under_way: list[AbstractContextManager[None]] = []

    def begin(*_: Any) -> None:
        under_way.append(tracer.updating())
        under_way[-1].__enter__()

    def end(*_: Any) -> None:
        under_way.pop().__exit__(None, None, None)

    for optimizer in step.optimizers:
        optimizer.register_step_pre_hook(begin)
        optimizer.register_step_post_hook(end)
