"""Finds and describes the modules that an optimizer trains."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.watch.observation import ModelFacts, OptimizerFacts

CANDIDATES = 64
DEPTH = 3


def parameters_of(optimizers: Iterable[torch.optim.Optimizer]) -> list[Tensor]:
    """Returns all tensors that the optimizers train, each once."""
    found = {id(p): p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    return list(found.values())


def outermost_modules(parameters: Sequence[Tensor]) -> list[nn.Module]:
    """Returns the living modules that hold any of the parameters and are not part of another such module."""
    wanted = {id(parameter) for parameter in parameters}
    return [module for module in _outermost() if any(id(p) in wanted for p in module.parameters())]


def trainable_modules() -> list[nn.Module]:
    """Returns the living modules that can be trained, in training mode, and are not part of another module."""
    return [m for m in _outermost() if any_trains([m]) and any(p.requires_grad for p in m.parameters())]


def _outermost() -> list[nn.Module]:
    # By type, not isinstance: proxy objects may run any code when asked for their class.
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module) and "_modules" in vars(thing)]
    inside = {id(child) for module in modules for child in module._modules.values() if child is not None}
    return [module for module in modules if id(module) not in inside]


def hookable(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Returns the modules and some inner ones, because a container may never be called itself; no compiled ones."""
    found: list[nn.Module] = []
    level = list(modules)
    for _ in range(DEPTH):
        level = [module for module in level if getattr(module, "_compiled_call_impl", None) is None]
        found += level
        level = [child for module in level if not _is_compiled(module) for child in module.children()]
    return found[:CANDIDATES]


def any_trains(modules: Sequence[nn.Module]) -> bool:
    """Tells whether any part is in training mode, such as the head of a frozen model."""
    return any(m.training for m in modules) or any(part.training for m in modules for part in m.modules())


def describe_model(modules: Sequence[nn.Module], parameters: Sequence[Tensor]) -> ModelFacts:
    """Returns the facts about the trained modules."""
    every = list({id(p): p for p in (*_parameters(modules), *parameters)}.values())
    sizes: dict[torch.dtype, int] = {}
    for parameter in every:
        sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
    floating = {dtype: size for dtype, size in sizes.items() if dtype.is_floating_point}
    filters = [p for p in every if p.dim() == 4 and max(p.shape[2:]) > 1]
    largest = max(modules, key=lambda module: sum(p.numel() for p in module.parameters()), default=None)
    return ModelFacts(
        name=_name(largest) if largest is not None else "",
        parameters=sum(p.numel() for p in every),
        trainable_parameters=sum(p.numel() for p in parameters if p.requires_grad),
        precision=str(max(floating, key=floating.__getitem__, default=torch.float32)).removeprefix("torch."),
        has_convolutions=bool(filters),
        channels_last=any(
            p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in filters
        ),
        compiled=any(_is_compiled(m) for module in modules for m in module.modules()) or _dynamo_ran(),
        checkpointing=any(
            getattr(m, "gradient_checkpointing", False) is True for module in modules for m in module.modules()
        ),
    )


def describe_optimizer(optimizer: torch.optim.Optimizer) -> OptimizerFacts:
    """Returns the facts about an optimizer."""
    group: dict[str, Any] = optimizer.param_groups[0] if optimizer.param_groups else {}
    return OptimizerFacts(
        name=getattr(optimizer, "shown_as", type(optimizer).__name__),
        fused=bool(group.get("fused")),
        can_fuse="fused" in optimizer.defaults,
    )


def optimizer_state(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[Tensor]:
    """Yields the tensors of the optimizers' state."""
    for optimizer in optimizers:
        for state in optimizer.state.values():
            values = state.values() if isinstance(state, dict) else ()
            yield from (value for value in values if isinstance(value, Tensor))


def _parameters(modules: Iterable[nn.Module]) -> Iterator[Tensor]:
    for module in modules:
        yield from module.parameters()


def _is_compiled(module: nn.Module) -> bool:
    return "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None


def _name(module: nn.Module) -> str:
    inner = module
    while "_orig_mod" in inner._modules or type(inner).__name__ in ("DistributedDataParallel", "DataParallel"):
        inner = next(inner.children())
    return type(inner).__name__


def _dynamo_ran() -> bool:
    import sys

    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and sum(dynamo.counters["frames"].values()) > 0
