"""What is trained: a model and the batches it eats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Batch = dict[str, "Tensor"]


@dataclass(frozen=True)
class Workload:
    """A model to build and the synthetic batches to train it on.

    ``build()`` makes the model, with the device as torch's default device; called anew for every run or prediction.
    ``batch(size, device)`` makes the keyword arguments of one forward call, labels included.
    ``loss(model, batch)`` runs the forward pass and gives the loss; without it the model's own ``.loss`` is taken.
    ``optimizer(model)`` makes the optimizer; without it the recipe's is taken.
    ``sample`` says in words how large a sample is.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[int, torch.device], Batch]
    loss: Callable[[Callable[..., Any], Batch], Tensor] | None = None
    name: str = field(default="model", kw_only=True)
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = field(default=None, kw_only=True)
    sample: str = field(default="", kw_only=True)


def count_elements(batch: Any) -> int:
    """How many numbers a batch holds, as far as tensors are seen; what an object keeps to itself is not."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(batch) if isinstance(batch, Mapping) else batch)  # a tokenizer's answer is no dict
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
