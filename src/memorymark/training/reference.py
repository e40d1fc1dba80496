"""The frozen model that a trained one is compared with: a copy of it, or the base under its adapters."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from memorymark.devices.storages import dense_parts
from memorymark.question.recipe import Recipe


class Reference:
    """Computes what ``model`` did before it was trained. ``copy`` is ``None`` if that is the model without adapters."""

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self._model = model
        self.copy = None if recipe.lora else _frozen_copy(model)

    def __call__(self, **inputs: Any) -> Any:
        """Runs a forward pass that keeps nothing."""
        with torch.no_grad():
            if self.copy is not None:
                return self.copy(**inputs)
            with _without_adapters(self._model):
                return self._model.forward(**inputs)  # a hook on the model would see the outputs of another pass

    @property
    def copied_bytes(self) -> int:
        """The size of the copy."""
        if self.copy is None:
            return 0
        parts = (part for weight in self.copy.parameters() for part in dense_parts(weight))
        return sum(part.nbytes for part in parts)


def _frozen_copy(model: nn.Module) -> nn.Module:
    """Copies the model in evaluation mode; tensors are cloned, because fake ones cannot be deeply copied."""
    copies: dict[int, Any] = {id(buffer): buffer.detach().clone() for buffer in model.buffers()}
    for weight in model.parameters():
        copies[id(weight)] = nn.Parameter(weight.detach().clone(), requires_grad=False)
    return copy.deepcopy(model, copies).eval()


@contextmanager
def _without_adapters(model: nn.Module) -> Iterator[None]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    try:
        for layer in layers:
            layer.enable_adapters(False)
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
