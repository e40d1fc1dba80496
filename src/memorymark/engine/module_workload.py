"""Turns a module of the caller's, with its batch function, loss and optimizer, into a workload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from memorymark.checks.types import shown
from memorymark.devices.allocations import PHASES_OF_STEP
from memorymark.devices.resolve import on_device
from memorymark.engine.loader_batches import batches_of
from memorymark.errors import CannotPredictError, UsageError
from memorymark.question.target import Target
from memorymark.training.blame import blaming
from memorymark.training.workload import Workload, require_function

if TYPE_CHECKING:
    import torch
    from torch import nn


def as_module(given: Any) -> nn.Module:
    """Returns a module; several, in a list or a dict, as one that holds them. Refuses anything else."""
    from torch import nn

    if isinstance(given, nn.Module):
        return given
    if given and isinstance(given, (list, tuple)) and all(isinstance(one, nn.Module) for one in given):
        return nn.ModuleList(given)
    if given and isinstance(given, dict) and all(isinstance(one, nn.Module) for one in given.values()):
        return nn.ModuleDict(given)
    raise UsageError(
        f"max_batch_size takes a torch module, several in a list or a dict, or a Trainer, not {shown(given)}; for "
        "names, see analyze.",
        code="wrong_type",
    )


def require_trained(module: nn.Module) -> None:
    """Raises ``UsageError`` if the module has no trainable parameters."""
    import torch

    from memorymark.training.optimizers import name_of

    if any(isinstance(one, torch.jit.ScriptModule) for one in module.modules()):
        raise UsageError(
            f"{name_of(module)} went through torch.jit; pass the module as it was before.",
            code="bad_workload",
        )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UsageError(
            f"{name_of(module)} has no trainable parameters; pass a module that has some.", code="bad_workload"
        )


def where_it_is(module: nn.Module, target: Target) -> Target:
    """Returns the target on the module's device, unless the target names another or the module is still on the CPU."""
    device = next(module.parameters()).device
    if device.type == "cpu":
        return target
    return on_device(target, str(device) if device.type == "cuda" else device.type)


def own_workload(
    module: nn.Module, batch: Any, loss: Any, optimizer: Any, *, step: Any = None, between: Any = None
) -> Workload:
    """Returns a workload that trains this very module; raises ``UsageError`` if a part of it cannot be used."""
    from memorymark.training.optimizers import name_of

    _require_loss(loss)
    (made, from_host), optimizers = _on_device(batch), _maker(optimizer, module)
    return Workload(
        lambda: module,
        made,
        loss,
        name=name_of(module),
        optimizer=optimizers,
        from_host=from_host,
        step=step,
        between=_named(between),
    )


def _named(between: Any) -> dict[str, Any]:
    """Returns the functions to run between steps, by name; a single one keeps its own name."""
    if between is None:
        return {}
    if callable(between):
        return {str(getattr(between, "__name__", "between")): between}
    if not isinstance(between, dict) or not all(isinstance(name, str) for name in between):
        raise UsageError(
            f"between= must be a function or a dict of them by name, not {shown(between)}.", code="bad_workload"
        )
    for name in between:
        if name in PHASES_OF_STEP:
            raise UsageError(f"between= cannot be called {name!r}, which is a part of each step.", code="bad_workload")
    return between


def _require_loss(loss: Any) -> None:
    """Raises ``UsageError`` if ``loss`` cannot be called with a module and a batch."""
    from torch.nn.modules.loss import _Loss

    if isinstance(loss, _Loss):
        raise UsageError(
            f"loss= is called as loss(module, batch), but {type(loss).__name__} compares outputs with targets; pass a "
            "function such as lambda module, batch: criterion(module(batch[0]), batch[1]).",
            code="bad_workload",
        )
    if loss is not None:
        require_function("loss", loss, ("module", "batch"))


def _on_device(batch: Callable[..., Any]) -> tuple[Callable[[int, torch.device], Any], bool]:
    """Returns a batch function that takes a size and a device, and whether it moves batches from the host.

    It does if ``batch`` takes only a size. A data loader makes batches of any size from its samples.
    """
    from torch.utils.data import DataLoader

    if isinstance(batch, DataLoader):
        with blaming("batch="):
            batch = batches_of(batch)
    takes = ("size", "device") if callable(batch) and _required_arguments(batch) >= 2 else ("size",)
    require_function("batch", batch, takes)
    if len(takes) == 2:
        return batch, False

    def moved(size: int, device: torch.device) -> Any:
        from torch.utils._pytree import tree_map

        return tree_map(lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf, batch(size))

    return moved, True


def _required_arguments(function: Callable[..., Any]) -> int:
    """Returns how many arguments a function requires; 1 for a builtin without a signature, such as ``torch.rand``."""
    try:
        parameters = signature(function).parameters.values()
    except ValueError:
        return 1
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is Parameter.empty for p in parameters)


def _maker(optimizer: Any, module: nn.Module) -> Callable[[nn.Module], Any] | None:
    """Returns a function that makes the caller's optimizers for a model: the module itself or its twin."""
    from torch.optim import Optimizer

    from memorymark.training.optimizers import listed

    if optimizer is None:
        return None
    if isinstance(optimizer, type):
        raise UsageError(
            f"optimizer= is the class {optimizer.__name__}; pass an instance, such as "
            f"{optimizer.__name__}(module.parameters()), or a function that makes one from the module.",
            code="bad_workload",
        )
    if callable(optimizer) and not isinstance(optimizer, Optimizer):
        require_function("optimizer", optimizer, ("module",))
        make: Callable[[nn.Module], Any] = optimizer
        return make
    several = listed(optimizer, module)

    def same(model: nn.Module) -> list[Optimizer]:
        if model is module:
            return several
        twins = dict(model.named_parameters())
        memo: dict[int, Any] = {id(parameter): twins[name] for name, parameter in module.named_parameters()}
        memo |= {id(one.state): defaultdict(dict) for one in several}
        return deepcopy(several, memo)

    return same


def with_twin(workload: Workload, module: nn.Module) -> Workload:
    """Returns the workload with a copy of the module on the meta device, which a prediction may change."""
    from memorymark.prediction.tracing.fake_step import cannot_predict_compiled
    from memorymark.prediction.tracing.values import note_values
    from memorymark.training.step import runs_compiled_code

    if runs_compiled_code(module):  # which cannot even be copied
        raise cannot_predict_compiled("pass the module as it was before torch.compile")

    def build() -> nn.Module:
        import torch
        from torch import nn

        def shape_of(tensor: torch.Tensor) -> torch.Tensor:
            empty = torch.empty_like(tensor, device="meta")
            if isinstance(tensor, nn.Parameter):
                return nn.Parameter(empty, tensor.requires_grad)
            note_values(empty, tensor)
            return empty

        shapes: dict[int, Any] = {id(t): shape_of(t) for t in (*module.parameters(), *module.buffers())}
        try:
            return deepcopy(module, shapes)
        except Exception as error:  # a part that cannot be copied may raise anything
            raise CannotPredictError(
                f"{type(module).__name__} cannot be copied ({error}), so its step cannot be predicted; measure it, "
                "or pass analyze a Workload that builds it."
            ) from error

    return replace(workload, build=build)
