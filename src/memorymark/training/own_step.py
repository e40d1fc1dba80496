"""Runs a caller's own training step, and tells its phases and which optimizers it updates with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from memorymark.devices.allocations import Phase
from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName
from memorymark.question.recipe import Recipe
from memorymark.suggestions import without

OnPhase = Callable[[Phase], None]
# The options that such a step decides itself.
DECIDED_BY_STEP = (
    "precision",
    "accumulation_steps",
    "loss",
    "keep_outputs",
    "compile",
    "offload",
    "optimizer_in_backward",
)
# An update may be skipped in the first step, as by a gradient scaler.
STEPS_UNTIL_UPDATED = 2


def require_undecided(recipe: Recipe) -> None:
    """Refuses options that a step of the caller's own decides itself."""
    usual = Recipe()
    for name in DECIDED_BY_STEP:
        given = getattr(recipe, name)
        if given != getattr(usual, name):
            raise UsageError(
                Message("step= decides about {option} itself; leave that out.", option=OptionName(name)),
                code="conflict",
                field=name,
                given=given,
                proposals=[without(name, usual=getattr(usual, name))],
            )


def as_given(optimizers: Sequence[torch.optim.Optimizer]) -> Any:
    """Returns the optimizers as a step is given them: the one, or the list if there are several."""
    return optimizers[0] if len(optimizers) == 1 else list(optimizers)


class OwnStep:
    """The caller's step for a model and its optimizers."""

    def __init__(
        self, step: Callable[[Any, Any, Any], object], model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
    ) -> None:
        self._step, self._model, self._optimizers = step, model, optimizers
        self._updated: set[int] = set()
        self._runs = 0

    def run(self, batch: Any, on_phase: OnPhase) -> None:
        """Runs one step; refuses one that trains something else than what it is given."""
        passes = 0

        def tell(phase: Phase) -> None:
            nonlocal passes
            if phase == "backward":
                passes += 1
                self._require_gradients()
            on_phase(phase)

        handle = register_optimizer_step_post_hook(lambda one, *_: self._updated.add(id(one)))
        try:
            with phases_told(tell):
                self._step(self._model, batch, as_given(self._optimizers))
        finally:
            handle.remove()
        self._runs += 1
        if not passes:
            raise _untrained("runs no backward pass (loss.backward()), so nothing is trained")
        for one in self._optimizers:
            if id(one) not in self._updated and self._runs >= STEPS_UNTIL_UPDATED:
                raise _untrained(
                    f"never calls .step() of the {type(one).__name__} that it is given; update with its third "
                    "argument, in every step"
                )

    def _require_gradients(self) -> None:
        trained = [weight for weight in self._model.parameters() if weight.requires_grad]
        if all(weight.grad is None and not weight._post_accumulate_grad_hooks for weight in trained):
            raise _untrained("trains another module than the one it is given; use its first argument")


def _untrained(what: str) -> UsageError:
    return UsageError(f"step= {what}.", code="bad_workload")


@contextmanager
def no_updates() -> Iterator[None]:
    """Refuses updates: a loss that runs some is a step."""

    def refuse(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        raise UsageError(
            f"loss= calls .step() of {type(optimizer).__name__} itself; pass it as step=, a whole training step.",
            code="bad_workload",
        )

    handle = register_optimizer_step_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def phases_told(on_phase: OnPhase) -> Iterator[None]:
    """Tells when a forward pass has ended, because its backward pass begins, and when that has ended."""
    original: Any = torch.autograd.backward
    inside = False

    def backward(*args: Any, **kwargs: Any) -> None:
        nonlocal inside
        if inside:  # a part of a backward pass, as checkpoints run it
            original(*args, **kwargs)
            return
        on_phase("forward")
        inside = True
        try:
            original(*args, **kwargs)
        finally:
            inside = False
        on_phase("backward")

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = original
