"""Knows in which module of a model an operation runs, in the forward and in the backward pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from memorymark.devices.storages import local_part
from memorymark.results.explanation import LayerKind, ModuleFacts


class Places:
    """The modules of a model by their paths; ``""`` is the model itself, and what runs outside of it.

    An operation of the backward pass runs where the one runs whose gradient it computes.
    """

    def __init__(self, models: Iterable[nn.Module]) -> None:
        self.modules: dict[str, ModuleFacts] = {}
        self._paths: dict[int, str] = {}
        self._tensors: dict[int, str] = {}
        for number, model in enumerate(models):
            for name, module in model.named_modules(prefix="reference" if number else ""):
                self._paths.setdefault(id(module), name)
                self.modules[name] = ModuleFacts(type(module).__name__, layer_kind(module))
                for tensor in (*module._parameters.values(), *module._buffers.values()):
                    if tensor is not None:
                        self._tensors.setdefault(id(tensor), name)
        self._inside: list[str] = []
        # From which number of autograd's nodes on the forward pass was in which module.
        self._starts: list[int] = []
        self._entered: list[str] = []

    def of_tensor(self, tensor: torch.Tensor) -> str:
        """Returns the module that a parameter or buffer belongs to."""
        return self._tensors.get(id(tensor), "")

    def of_state(self, models: Iterable[nn.Module], optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[Any]:
        """Yields the gradients and the optimizers' tensors of all parameters, each with its parameter's module."""
        states = [one.state for one in optimizers]
        for parameter in (each for model in models for each in model.parameters()):
            own = [state[parameter] for state in states if parameter in state]
            values = [value for state in own for value in state.values() if isinstance(value, torch.Tensor)]
            gradient = [parameter.grad] if parameter.grad is not None else []
            yield from ((local_part(tensor), self.of_tensor(parameter)) for tensor in (*gradient, *values))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follows what runs inside."""

        def begins(module: nn.Module, *_: Any) -> None:
            self._inside.append(self._paths.get(id(module), self._inside[-1] if self._inside else ""))
            self._note()

        def ends(*_: Any) -> None:
            self._inside.pop()
            self._note()

        hooks = [register_module_forward_pre_hook(begins), register_module_forward_hook(ends, always_call=True)]
        try:
            yield
        finally:
            self._inside.clear()
            for hook in hooks:
                hook.remove()

    def now(self) -> str:
        """Returns the module whose operation runs."""
        if self._inside:
            return self._inside[-1]
        node: Any = torch._C._current_autograd_node()
        if node is None:
            return ""
        if (parameter := getattr(node, "variable", None)) is not None:  # its gradient is complete
            return self.of_tensor(parameter)
        at = bisect_right(self._starts, node._sequence_nr()) - 1
        return self._entered[at] if at >= 0 else ""

    def _note(self) -> None:
        number = torch._C._autograd._get_sequence_nr()
        if self._starts and number <= self._starts[-1]:
            if number == self._starts[-1]:  # less than that is another thread's, which recomputes
                self._entered[-1] = self._inside[-1] if self._inside else ""
            return
        self._starts.append(number)
        self._entered.append(self._inside[-1] if self._inside else "")


def layer_kind(module: nn.Module) -> LayerKind:
    """Tells by what a module is made of what kind of layer it is."""
    if isinstance(module, (nn.ModuleList, nn.Sequential)):
        return "list"
    if isinstance(module, nn.Embedding):
        return "embedding"
    if isinstance(module, _ConvNd):
        return "convolution"
    weights = [parameter for parameter in module._parameters.values() if parameter is not None]
    is_leaf = next(module.children(), None) is None
    if is_leaf and weights and all(weight.dim() == 1 for weight in weights):
        return "norm"
    if isinstance(module, nn.Linear) or (is_leaf and weights and weights[0].dim() == 2):
        return "linear"
    return "other"
