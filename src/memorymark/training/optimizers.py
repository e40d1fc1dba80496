"""The optimizers of a step: the recipe's, or one or several of the caller's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.checks.types import shown
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import Recipe
from memorymark.suggestions import Proposal, without
from memorymark.training.bits_and_bytes import CLASSES as BITS_AND_BYTES
from memorymark.training.bits_and_bytes import make_bits_and_bytes
from memorymark.training.blame import blaming
from memorymark.training.host_links import CountedLink
from memorymark.training.host_optimizer import HostOptimizer, gradients_sent
from memorymark.training.tensor_parallel import is_cut
from memorymark.training.workload import Workload

LEARNING_RATE = 1e-5
# The recipe's options about the optimizer, which one of the caller's own replaces.
ABOUT_OPTIMIZERS = ("optimizer", "fused", "optimizer_variant", "optimizer_in_backward")
Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
WHAT_IT_IS = "an optimizer, a list of several, or a function that makes them from the module"


def optimizers_of(
    workload: Workload, recipe: Recipe, model: nn.Module, link: CountedLink | None = None
) -> list[torch.optim.Optimizer]:
    """Returns the optimizers of a model: the workload's own, or else the recipe's; empty if the recipe has none.

    ``link`` is the one to the host, where an offloaded optimizer is.
    """
    if recipe.optimizer == "none":
        return []
    if workload.optimizer is None:
        return make_optimizers(model, recipe, link)
    if recipe.offload == "optimizer":
        raise UsageError(
            Message("{name} has its own optimizer, which stays; drop {offload:optimizer}.", name=workload.name),
            code="conflict",
            field="offload",
            given=recipe.offload,
            proposals=[without("offload", usual="none")],
        )
    usual = {name: getattr(Recipe(), name) for name in ABOUT_OPTIMIZERS}
    if any(getattr(recipe, name) != value for name, value in usual.items()):
        raise UsageError(
            Message(
                "{name} has its own optimizer; leave {optimizer}, {fused}, {optimizer_variant} and "
                "{optimizer_in_backward} out.",
                name=workload.name,
            ),
            code="conflict",
            field="optimizer",
            given=recipe.optimizer,
            proposals=[Proposal("its own optimizer", {**usual, "optimizer": None})],
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


def make_optimizers(model: nn.Module, recipe: Recipe, link: CountedLink | None = None) -> list[torch.optim.Optimizer]:
    """Makes the recipe's optimizers with torch's defaults: mostly one, or one for each parameter."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise UsageError(
            f"{name_of(model)} has no trainable parameters; pass a module that has some.", code="bad_workload"
        )
    if recipe.offload == "optimizer" and link is not None:
        return [HostOptimizer(trained, _maker(replace(recipe, offload="none", fused=True)), link, LEARNING_RATE)]
    makes = [(_maker(recipe), trained)]
    if recipe.optimizer == "muon":
        matrices = hidden_matrices(model)
        others = [p for p in trained if id(p) not in matrices]
        makes = [(_muon, [p for p in trained if id(p) in matrices]), (_adamw, others)]
    if recipe.optimizer_in_backward:
        return [make([parameter]) for make, parameters in makes for parameter in parameters]
    if recipe.strategy == "zero1":
        return [_divided(make, parameters) for make, parameters in makes]
    if recipe.tensor_parallel > 1 and not recipe.shards_weights:
        return [make(_apart(parameters)) for make, parameters in makes]
    return [make(parameters) for make, parameters in makes if parameters]


def _apart(parameters: list[nn.Parameter]) -> Any:
    """Returns groups of the parameters that several GPUs share and of the others: torch updates no list of both."""
    shared = [one for one in parameters if is_cut(one)]
    return [{"params": shared}, {"params": [one for one in parameters if not is_cut(one)]}]


def _divided(make: Make, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Returns an optimizer that keeps the state of its share of the parameters and gets the others updated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch uses what it deprecates
        from torch.distributed.optim import ZeroRedundancyOptimizer

    kind: Any = make
    optimizer: Any = ZeroRedundancyOptimizer(parameters, kind)
    optimizer.state = optimizer.optim.state  # where callers look for it
    return optimizer  # type: ignore[no-any-return]


def gradients_taken(recipe: Recipe, optimizers: Iterable[torch.optim.Optimizer]) -> AbstractContextManager[None]:
    """Lets the optimizers take each gradient in the backward pass, if the recipe says so."""
    if recipe.offload == "optimizer":
        return gradients_sent(optimizers)
    return updated_in_backward(optimizers) if recipe.optimizer_in_backward else nullcontext()


@contextmanager
def updated_in_backward(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[None]:
    """Lets each optimizer update its one parameter as soon as the gradient is complete, and free the gradient."""

    def update(optimizer: torch.optim.Optimizer, _: Tensor) -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    hooks = [
        parameter.register_post_accumulate_grad_hook(partial(update, optimizer))
        for optimizer in optimizers
        for parameter in parameters_of([optimizer])
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def hidden_matrices(model: nn.Module) -> set[int]:
    """Returns the ids of the parameters that Muon is for: 2-D, and neither an embedding nor part of the head.

    In a model of transformers, all that is outside of its base model is the head.
    """
    unwrap = getattr(model, "get_base_model", None)  # peft wraps it
    whole = model if unwrap is None else unwrap()
    body = getattr(whole, "base_model", whole)
    embeddings = {id(module.weight) for module in body.modules() if isinstance(module, nn.Embedding)}
    return {id(parameter) for parameter in body.parameters() if parameter.dim() == 2} - embeddings


def _maker(recipe: Recipe) -> Make:
    """Returns the function that makes the recipe's optimizer for some parameters."""
    if recipe.optimizer in BITS_AND_BYTES:
        return partial(make_bits_and_bytes, recipe.optimizer, lr=LEARNING_RATE)
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "sgd": partial(torch.optim.SGD, momentum=0.9),
        "adafactor": torch.optim.Adafactor,
    }
    how: dict[str, bool] = {"fused": True} if recipe.fused else {}
    if recipe.optimizer_variant != "auto":
        how["foreach"] = recipe.optimizer_variant == "foreach"
    return partial(kinds.get(recipe.optimizer, torch.optim.AdamW), lr=LEARNING_RATE, **how)


def _adamw(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE)


def _muon(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    muon: Any = getattr(torch.optim, "Muon", None)
    if muon is None:
        raise UsageError(
            f"Muon came with torch 2.9, and this is torch {torch.__version__}",
            hint=Message("upgrade torch, or choose another {optimizer}"),
            code="not_installed",
            field="optimizer",
            given="muon",
        )
    optimizer: torch.optim.Optimizer = muon(parameters, lr=LEARNING_RATE)
    return optimizer


def move_state(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Moves existing optimizer state to the device of its parameters; counters stay on the host."""
    for parameter, state in (item for one in optimizers for item in one.state.items()):
        for value in state.values():
            if isinstance(value, Tensor) and value.dim() > 0:
                value.data = value.data.to(parameter.device)


def _wants_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Tells whether an optimizer's step requires a closure, as LBFGS's does."""
    if isinstance(optimizer, torch.optim.LBFGS):
        return True
    parameters = signature(type(optimizer).step).parameters.values()
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return any(p.name == "closure" and p.default is Parameter.empty and p.kind not in kinds for p in parameters)


def _an(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
