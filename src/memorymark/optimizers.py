"""The optimizers of a step: the recipe's, or one or several of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake

from memorymark.blame import blaming
from memorymark.eight_bit import StandInAdamW8bit
from memorymark.errors import UsageError
from memorymark.recipe import Recipe
from memorymark.type_checks import shown
from memorymark.workload import Workload

LEARNING_RATE = 1e-5
WHAT_IT_IS = "an optimizer, a list of several, or a function that makes them from the module"


def optimizers_of(workload: Workload, recipe: Recipe, model: nn.Module) -> list[torch.optim.Optimizer]:
    """All that update the model: the workload's own, or else the recipe's; none where the recipe says so."""
    if recipe.optimizer == "none":
        return []
    if workload.optimizer is None:
        return [make_optimizer(model, recipe)]
    if recipe.optimizer != Recipe().optimizer or recipe.fused:
        raise UsageError(f"{workload.name} has an optimizer of its own; leave --optimizer and --fused out.")
    return own_optimizers(workload.optimizer, model)


def own_optimizers(make: Callable[[nn.Module], Any], model: nn.Module) -> list[torch.optim.Optimizer]:
    """What a function of the caller's makes for a model, as a list; what is no optimizer of it is refused."""
    with blaming("optimizer="):
        made = make(model)
    return listed(made, model)


def listed(given: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
    """An optimizer, or several, as a list; what does not train this model is refused."""
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    own = {id(parameter) for parameter in model.parameters()}
    if not several:
        raise UsageError(f"optimizer= is empty; give {WHAT_IT_IS}.")
    for one in several:
        if not isinstance(one, torch.optim.Optimizer):
            raise UsageError(f"optimizer= must be {WHAT_IT_IS}, not {shown(one)}.")
        if _wants_closure(one):
            raise UsageError(
                f"optimizer= is {type(one).__name__}, whose step runs the model several times through a closure, and "
                "steps are run without one here; give another, such as AdamW."
            )
        if not any(id(parameter) in own for parameter in parameters_of([one])):
            raise UsageError(
                f"optimizer= has {_an(type(one).__name__)} that updates no parameter of the {name_of(model)}; make it "
                "of the module's parameters, or put all modules that are trained into one."
            )
    return several


def parameters_of(optimizers: Iterable[torch.optim.Optimizer]) -> list[Tensor]:
    """Everything that they update."""
    return [parameter for one in optimizers for group in one.param_groups for parameter in group["params"]]


def name_of(model: nn.Module) -> str:
    """The name of a module's class; of a compiled one that of what was compiled."""
    return type(getattr(model, "_orig_mod", model)).__name__


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer with torch's own defaults."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise UsageError(f"{name_of(model)} has no parameters that are trained; give one that has.")
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
    """Moves the state that optimizers already have to where their parameters are now; counters stay on the host."""
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
        raise UsageError("8-bit AdamW needs bitsandbytes; run `pip install bitsandbytes`.") from None
    optimizer: torch.optim.Optimizer = AdamW8bit(trained, lr=LEARNING_RATE)
    return optimizer


def _wants_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step cannot be called with nothing, as that of LBFGS."""
    if isinstance(optimizer, torch.optim.LBFGS):
        return True
    parameters = signature(type(optimizer).step).parameters.values()
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return any(p.name == "closure" and p.default is Parameter.empty and p.kind not in kinds for p in parameters)


def _an(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
