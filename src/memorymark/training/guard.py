"""Restores a user's model, optimizer and process after a run."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.devices.allocator_settings import use_allocator

# A module's attributes besides tensors and submodules that a step may change.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def unharmed(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer] = (), *, runs_on: torch.device | None = None
) -> Iterator[None]:
    """Restores weights, buffers, gradients, modes, hooks, checkpointing, optimizer state and random state at exit.

    Weights and buffers are then the very same tensors with the same memory on the same device, because others may hold
    views of them. Gradients wait on the host, so that they are not measured, and return in new memory.

    ``runs_on`` is the device of the run: weights on another device are moved for the run and the originals stay
    untouched, so they need no backup.
    """
    modules = [_Module(module) for module in model.modules()]
    tensors = [
        _Tensor(tensor, copied=runs_on is None or tensor.device.type == runs_on.type)
        for tensor in (*model.parameters(), *model.buffers())
    ]
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    grad_devices = {parameter: grad.device for parameter, grad in gradients.items() if grad is not None}
    checkpointing = getattr(model, "is_gradient_checkpointing", False)
    states = [_OptimizerState(optimizer) for optimizer in optimizers]
    for parameter, gradient in gradients.items():
        parameter.grad = None
        if gradient is not None:
            gradient.data = gradient.data.cpu()
    with randomness_unharmed():
        try:
            yield
        finally:
            if getattr(model, "is_gradient_checkpointing", False) and not checkpointing:
                model.gradient_checkpointing_disable()  # type: ignore[operator]
            for module in modules:
                module.put_back()
            for tensor in tensors:
                tensor.put_back()
            for parameter, gradient in gradients.items():
                if gradient is not None:
                    gradient.data = gradient.data.to(grad_devices[parameter])
                parameter.grad = gradient
            for state in states:
                state.put_back()


@contextmanager
def randomness_unharmed() -> Iterator[None]:
    """Restores the random states of torch (on every device), Python and numpy at exit."""
    python, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    on_mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    cuda = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    try:
        with torch.random.fork_rng(devices=list(cuda)):
            yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        if on_mps is not None:
            torch.mps.set_rng_state(on_mps)


@contextmanager
def device_unharmed() -> Iterator[None]:
    """Restores the current device and the allocator's setting and cap at exit, and frees cached memory."""
    if not torch.cuda.is_available():
        yield
        return
    before = torch.cuda.current_device()
    fractions = {index: _memory_fraction(index) for index in range(torch.cuda.device_count())}
    try:
        yield
    finally:
        gc.collect()  # a step that failed may have left cycles that hold tensors
        torch._C._cuda_clearCublasWorkspaces()  # each keeps its whole segment alive
        torch.cuda.empty_cache()
        use_allocator("default")
        for index, fraction in fractions.items():
            torch.cuda.set_per_process_memory_fraction(fraction, index)
        torch.cuda.set_device(before)


def _memory_fraction(index: int) -> float:
    ask = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # not in every torch
    return float(ask(index)) if ask is not None else 1.0


class _Tensor:
    """A tensor's memory and contents, to be restored."""

    def __init__(self, tensor: Tensor, *, copied: bool = True) -> None:
        self._tensor, self._data = tensor, tensor.data
        self._value = tensor.detach().to("cpu", copy=True) if copied else None
        self._requires_grad = tensor.requires_grad

    def put_back(self) -> None:
        if self._value is not None:
            self._data.copy_(self._value)
        self._tensor.data = self._data
        self._tensor.requires_grad_(self._requires_grad)


class _Module:
    """A module's attributes except its tensors' contents, to be restored."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._training = module, module.training
        self._parts = {name: copy(getattr(module, name)) for name in ("_parameters", "_buffers", *HOOKS)}

    def put_back(self) -> None:
        self._module.training = self._training
        for name, before in self._parts.items():
            part = getattr(self._module, name)
            part.clear()
            part.update(before)


class _OptimizerState:
    """An optimizer's state, to be restored."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._groups = [dict(group) for group in optimizer.param_groups]
        self._state = {parameter: dict(state) for parameter, state in optimizer.state.items()}
        self._tensors = [_Tensor(value) for state in self._state.values() for value in _tensors(state)]

    def put_back(self) -> None:
        self._optimizer.state.clear()
        self._optimizer.state.update(self._state)
        for tensor in self._tensors:
            tensor.put_back()
        for group, before in zip(self._optimizer.param_groups, self._groups, strict=True):
            group.clear()
            group.update(before)


def _tensors(state: dict[str, Any]) -> Iterator[Tensor]:
    return (value for value in state.values() if isinstance(value, Tensor))
