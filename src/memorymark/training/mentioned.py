"""Restores what a caller's functions mention besides the module and its optimizers.

That is schedulers, gradient scalers, and averages of the weights, as another module or as a dict of tensors.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

# A prediction steps a scheduler, but not the optimizer that it belongs to.
NO_UPDATE_BEFORE = r"Detected call of `lr_scheduler\.step\(\)` before"


@contextmanager
def mentioned_unharmed(module: nn.Module, *functions: Callable[..., Any] | None) -> Iterator[None]:
    """Restores at exit the state of objects that the functions name, and the settings of optimizers they belong to.

    The ``module`` and its parts are left to others.
    """
    mentioned = [one for function in functions if function is not None for one in _mentioned(function)]
    found, own = list(filter(_is_stateful, mentioned)), {id(part) for part in module.modules()}
    tensors = {id(tensor): tensor for one in mentioned if id(one) not in own for tensor in _tensors(one)}
    values = [(tensor, tensor.detach().cpu().clone()) for tensor in tensors.values()]
    states = [(one, deepcopy(one.state_dict())) for one in found]
    optimizers = [one.optimizer for one in found if isinstance(getattr(one, "optimizer", None), Optimizer)]
    groups = [(group, dict(group)) for optimizer in optimizers for group in optimizer.param_groups]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NO_UPDATE_BEFORE)
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in values:
                    tensor.copy_(value)
            for one, state in states:
                one.load_state_dict(state)
            for group, before in groups:
                group.clear()
                group.update(before)


def _mentioned(function: Callable[..., Any]) -> list[Any]:
    try:
        names = inspect.getclosurevars(inspect.unwrap(function))
    except TypeError:  # it was not written in Python
        return []
    return [*names.nonlocals.values(), *names.globals.values()]


def _is_stateful(one: Any) -> bool:
    """Tells whether an object can save and load its state; modules and optimizers are restored in other ways."""
    has_state = hasattr(type(one), "state_dict") and hasattr(type(one), "load_state_dict")
    return has_state and not isinstance(one, (nn.Module, Optimizer))


def _tensors(one: Any) -> Iterator[Tensor]:
    """Yields the tensors of a module, or of a dict such as what its ``state_dict()`` returned."""
    held = (*one.parameters(), *one.buffers()) if isinstance(one, nn.Module) else ()
    held = tuple(one.values()) if isinstance(one, dict) else held
    yield from (tensor for tensor in held if isinstance(tensor, Tensor) and not tensor.is_meta)
