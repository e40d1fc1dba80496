"""Restores what a caller's functions mention besides the module and its optimizers: schedulers, gradient scalers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from torch import nn
from torch.optim import Optimizer

# A prediction steps a scheduler, but not the optimizer that it belongs to.
NO_UPDATE_BEFORE = r"Detected call of `lr_scheduler\.step\(\)` before"


@contextmanager
def mentioned_unharmed(*functions: Callable[..., Any] | None) -> Iterator[None]:
    """Restores at exit the state of objects that the functions name, and the settings of optimizers they belong to."""
    found = [one for function in functions if function is not None for one in _stateful(function)]
    states = [(one, deepcopy(one.state_dict())) for one in found]
    optimizers = [one.optimizer for one in found if isinstance(getattr(one, "optimizer", None), Optimizer)]
    groups = [(group, dict(group)) for optimizer in optimizers for group in optimizer.param_groups]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NO_UPDATE_BEFORE)
        try:
            yield
        finally:
            for one, state in states:
                one.load_state_dict(state)
            for group, before in groups:
                group.clear()
                group.update(before)


def _stateful(function: Callable[..., Any]) -> Iterator[Any]:
    """Yields what a function mentions that can save and load its state, except modules and optimizers."""
    try:
        names = inspect.getclosurevars(inspect.unwrap(function))
    except TypeError:  # it was not written in Python
        return
    for one in (*names.nonlocals.values(), *names.globals.values()):
        has_state = hasattr(type(one), "state_dict") and hasattr(type(one), "load_state_dict")
        if has_state and not isinstance(one, (nn.Module, Optimizer)):
            yield one
