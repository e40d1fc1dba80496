"""What a Trainer of transformers or Lightning trains, and how, as the arguments of ``max_batch_size``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

LIGHTNINGS = ("lightning.pytorch", "pytorch_lightning")
NO_CLIPPING = (None, 0, 0.0)


@dataclass(frozen=True)
class Trained:
    """A module, the batches and the loss it is trained with, and options that say how."""

    module: nn.Module
    batch: Any
    loss: Callable[..., Any] | None
    optimizer: Any
    options: dict[str, Any] = field(default_factory=dict)


def trained_by(given: Any, batch: Any) -> Trained | None:
    """Returns what a Trainer trains, or a LightningModule by itself; ``None`` for anything else."""
    if isinstance(given, _class("transformers.trainer", "Trainer")):
        return _by_transformers(given, batch)
    for lightning in LIGHTNINGS:
        if isinstance(given, _class(lightning, "Trainer")):
            return _by_lightning(given, batch)
        if isinstance(given, _class(lightning, "LightningModule")):
            return Trained(given, batch, _lightning_loss, _lightning_optimizers)
    return None


def _class(module: str, name: str) -> Any:
    """Returns a class of a package that the caller has imported; no class at all if not."""
    return getattr(sys.modules.get(module), name, ())


def _by_transformers(trainer: Any, batch: Any) -> Trained:
    from memorymark.training.guard import randomness_unharmed

    if batch is None:
        with randomness_unharmed():  # its sampler draws a seed
            batch = trainer.get_train_dataloader()
    return Trained(
        trainer.model,
        batch,
        lambda model, inputs: trainer.compute_loss(model, dict(inputs)),
        trainer.optimizer or (lambda model: _transformers_optimizer(trainer, model)),
        _transformers_options(trainer.args),
    )


def _transformers_optimizer(trainer: Any, model: nn.Module) -> Any:
    """Returns the optimizer that the Trainer would make, which it makes only once and then keeps."""
    try:
        return trainer.create_optimizer(model)
    finally:
        trainer.optimizer = None


def _transformers_options(arguments: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "precision": "bf16" if arguments.bf16 else "fp16" if arguments.fp16 else "fp32",
        "accumulate": arguments.gradient_accumulation_steps,
        "gradient_checkpointing": bool(arguments.gradient_checkpointing),
        "tf32": bool(arguments.tf32),
        "compile": bool(arguments.torch_compile),
    }
    return options


def _by_lightning(trainer: Any, batch: Any) -> Trained:
    module = trainer.lightning_module
    loader = batch if batch is not None else trainer.train_dataloader
    if module is None or loader is None:
        raise UsageError(
            "this Trainer of Lightning has no module or no data loader yet; pass the LightningModule and the loader "
            "instead.",
            code="bad_workload",
        )
    precision = str(trainer.precision)
    options = {
        "precision": {"bf16-mixed": "bf16", "16-mixed": "fp16"}.get(precision, "fp32"),
        "accumulate": trainer.accumulate_grad_batches,
    }
    return Trained(module, loader, _lightning_loss, _lightning_optimizers, options)


def _lightning_loss(module: Any, batch: Any) -> Any:
    if not getattr(module, "automatic_optimization", True):
        raise UsageError(
            f"{type(module).__name__} optimizes manually; pass step=, which runs the updates.", code="bad_workload"
        )
    loss = module.training_step(batch, 0)
    return loss["loss"] if isinstance(loss, dict) else loss


def _lightning_optimizers(module: Any) -> Any:
    """Returns the optimizers that ``configure_optimizers`` makes, without their schedulers."""
    made = module.configure_optimizers()
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], list):
        made = made[0]
    several = made if isinstance(made, (list, tuple)) else [made]
    return [one["optimizer"] if isinstance(one, dict) else one for one in several]
