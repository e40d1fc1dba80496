"""What is trained: a model and the batches it eats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError
from memorymark.type_checks import shown

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Batch = dict[str, "Tensor"]
# What each function is called with.
TAKES = {"build": (), "batch": ("size", "device"), "loss": ("model", "batch"), "optimizer": ("model",)}


@dataclass(frozen=True)
class Workload:
    """A model to build and the synthetic batches to train it on.

    ``build()`` makes the model, with the device as torch's default device; called anew for every run or prediction.
    ``batch(size, device)`` makes the keyword arguments of one forward call, labels included.
    ``loss(model, batch)`` runs the forward pass and gives the loss; without it the model's own ``.loss`` is taken.
    ``optimizer(model)`` makes the optimizer, or a list of several; without it the recipe's is taken.
    ``sample`` says in words how large a sample is.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[int, torch.device], Batch]
    loss: Callable[[Callable[..., Any], Batch], Tensor] | None = None
    name: str = field(default="model", kw_only=True)
    optimizer: Callable[[nn.Module], torch.optim.Optimizer | Sequence[torch.optim.Optimizer]] | None = field(
        default=None, kw_only=True
    )
    sample: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        for name, takes in TAKES.items():
            given, may_be_left_out = getattr(self, name), name in ("loss", "optimizer")
            if not (given is None and may_be_left_out):
                require_function(name, given, takes)
        for name in ("name", "sample"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name}= must be a string, not {shown(getattr(self, name))}.")


def require_function(name: str, given: Any, takes: Sequence[str]) -> None:
    """Refuses what cannot be called with these arguments, as far as it says; a builtin may not."""
    called = f"{name}({', '.join(takes)})"
    if not callable(given):
        kind = shown(given) if given is None or isinstance(given, (str, int, float)) else f"a {type(given).__name__}"
        makes = " that makes as many samples as it is asked for" if name == "batch" else ""
        raise UsageError(f"{name}= must be a function{makes}, called as {called}, not {kind}.")
    try:
        signature(given).bind(*takes)
    except TypeError:
        raise UsageError(f"{name}= is called as {called}, which {_named(given)} cannot be.") from None
    except ValueError:  # it does not say
        return


def _named(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def count_elements(batch: Any) -> int:
    """How many numbers a batch holds, as far as tensors are seen; what an object keeps to itself is not."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(batch) if isinstance(batch, Mapping) else batch)  # a tokenizer's answer is no dict
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
