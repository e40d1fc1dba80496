"""Leaves a user's model and process as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def unharmed(model: nn.Module) -> Iterator[None]:
    """Puts weights, buffers, gradients, modes, checkpointing and torch's random state back as they were."""
    values = {tensor: tensor.detach().to("cpu", copy=True) for tensor in (*model.parameters(), *model.buffers())}
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    modes = {module: module.training for module in model.modules()}
    checkpointing = getattr(model, "is_gradient_checkpointing", False)
    for parameter in gradients:
        parameter.grad = None
    with torch.random.fork_rng():
        try:
            yield
        finally:
            for tensor, value in values.items():
                _put_back(tensor, value)
            for parameter, gradient in gradients.items():
                parameter.grad = gradient
            for module, training in modes.items():
                module.training = training
            if getattr(model, "is_gradient_checkpointing", False) and not checkpointing:
                model.gradient_checkpointing_disable()  # type: ignore[operator]


def _put_back(tensor: Tensor, value: Tensor) -> None:
    if tensor.stride() == value.stride():
        tensor.data.copy_(value)  # in place, because others may hold views of it
    else:
        tensor.data = value.to(tensor.device)  # the recipe had changed its memory format
