"""The optimizers of a step: the recipe's, or one or several of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake

from memorymark.checks.types import shown
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import Recipe
from memorymark.suggestions import Proposal
from memorymark.training.blame import blaming
from memorymark.training.eight_bit import StandInAdamW8bit
from memorymark.training.workload import Workload

LEARNING_RATE = 1e-5
WHAT_IT_IS = "an optimizer, a list of several, or a function that makes them from the module"


def optimizers_of(workload: Workload, recipe: Recipe, model: nn.Module) -> list[torch.optim.Optimizer]:
    """Returns the optimizers of a model: the workload's own, or else the recipe's; empty if the recipe has none."""
    if recipe.optimizer == "none":
        return []
    if workload.optimizer is None:
        return [make_optimizer(model, recipe)]
    if recipe.optimizer != Recipe().optimizer or recipe.fused:
        raise UsageError(
            Message("{name} has its own optimizer; leave {optimizer} and {fused} out.", name=workload.name),
            code="conflict",
            field="optimizer",
            given=recipe.optimizer,
            proposals=[Proposal("its own optimizer", {"optimizer": None, "fused": False})],
        )
    return own_optimizers(workload.optimizer, model)


def own_optimizers(make: Callable[[nn.Module], Any], model: nn.Module) -> list[torch.optim.Optimizer]:
    """Returns the optimizers that the caller's function makes for a model; refuses any that do not train it."""
    with blaming("optimizer="):
        made = make(model)
    return listed(made, model)


def listed(given: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
    """Returns one or several optimizers as a list; refuses any that do not train this model."""
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    own = {id(parameter) for parameter in model.parameters()}
    if not several:
        raise UsageError(f"optimizer= is empty; pass {WHAT_IT_IS}.", code="bad_workload")
    for one in several:
        if not isinstance(one, torch.optim.Optimizer):
            raise UsageError(f"optimizer= must be {WHAT_IT_IS}, not {shown(one)}.", code="bad_workload")
        if _wants_closure(one):
            raise UsageError(
                f"optimizer= is {type(one).__name__}, whose step runs the model several times through a closure, which "
                "is not supported; pass another, such as AdamW.",
                code="bad_workload",
            )
        if not any(id(parameter) in own for parameter in parameters_of([one])):
            raise UsageError(
                f"optimizer= has {_an(type(one).__name__)} that updates no parameter of the {name_of(model)}; make it "
                "from the module's parameters, or put all trained modules into one.",
                code="bad_workload",
            )
    return several


def parameters_of(optimizers: Iterable[torch.optim.Optimizer]) -> list[Tensor]:
    """Returns every tensor that the optimizers update."""
    return [parameter for one in optimizers for group in one.param_groups for parameter in group["params"]]


def name_of(model: nn.Module) -> str:
    """Returns the name of a module's class; for a compiled one, that of the original."""
    return type(getattr(model, "_orig_mod", model)).__name__


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Makes the recipe's optimizer with torch's defaults."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise UsageError(
            f"{name_of(model)} has no trainable parameters; pass a module that has some.", code="bad_workload"
        )
    fused: dict[str, Any] = {"fused": True} if recipe.fused else {}
    if recipe.optimizer == "adam":
        return torch.optim.Adam(trained, lr=LEARNING_RATE, **fused)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=0.9, **fused)
    if recipe.optimizer == "adafactor":
        return torch.optim.Adafactor(trained, lr=LEARNING_RATE)
    if recipe.optimizer == "adamw8bit":
        return _adamw_8bit(trained)
    return torch.optim.AdamW(trained, lr=LEARNING_RATE, **fused)


def move_state(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Moves existing optimizer state to the device of its parameters; counters stay on the host."""
    for parameter, state in (item for one in optimizers for item in one.state.items()):
        for value in state.values():
            if isinstance(value, Tensor) and value.dim() > 0:
                value.data = value.data.to(parameter.device)


def _adamw_8bit(trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    if any(is_fake(parameter) for parameter in trained):
        return StandInAdamW8bit(trained, lr=LEARNING_RATE)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError:
        raise UsageError(
            "8-bit AdamW needs bitsandbytes; run `pip install bitsandbytes`.",
            code="not_installed",
            field="optimizer",
            given="adamw8bit",
        ) from None
    optimizer: torch.optim.Optimizer = AdamW8bit(trained, lr=LEARNING_RATE)
    return optimizer


def _wants_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Tells whether an optimizer's step requires a closure, as LBFGS's does."""
    if isinstance(optimizer, torch.optim.LBFGS):
        return True
    parameters = signature(type(optimizer).step).parameters.values()
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return any(p.name == "closure" and p.default is Parameter.empty and p.kind not in kinds for p in parameters)


def _an(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
