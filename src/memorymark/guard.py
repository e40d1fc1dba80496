"""Leaves a user's model and process as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def unharmed(model: nn.Module) -> Iterator[None]:
    """Puts weights, buffers, gradients, modes, checkpointing and torch's random state back as they were."""
    values = {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    modes = {module: module.training for module in model.modules()}
    checkpointing = getattr(model, "is_gradient_checkpointing", False)
    for parameter in gradients:
        parameter.grad = None
    with torch.random.fork_rng():
        try:
            yield
        finally:
            model.load_state_dict(values)
            for parameter, gradient in gradients.items():
                parameter.grad = gradient
            for module, training in modes.items():
                module.training = training
            if getattr(model, "is_gradient_checkpointing", False) and not checkpointing:
                model.gradient_checkpointing_disable()  # type: ignore[operator]
