"""Finds out whether a loop keeps what the model returns, such as logits, through the backward pass."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from memorymark.training.outputs import tensors_inside

# How often a tensor counts as used if only the script holds it, and how often its storage does while one asks.
HELD_BY_SCRIPT = (1, 2)


class KeptOutputs:
    """Follows the outputs of forward passes; ``kept`` is ``None`` until a backward pass has followed one.

    Only what the backward pass does not need counts: the loop could drop that. References are weak.
    """

    def __init__(self) -> None:
        self.kept: bool | None = None
        self._returned: list[weakref.ref[Tensor]] = []

    def forward_ended(self, outputs: Any) -> None:
        """A forward pass has returned these outputs."""
        self._returned += [weakref.ref(tensor) for tensor in tensors_inside(outputs) if tensor.numel() > 1]

    def backward_begins(self) -> list[Tensor]:
        """Returns the outputs that are still alive although the backward pass does not need them."""
        if not self._returned:  # or a part of a backward pass, as checkpoints run it
            return []
        alive = [tensor for reference in self._returned if (tensor := reference()) is not None]
        idle = [tensor for tensor in alive if _held_by_script(tensor)]
        self._returned, self.kept = [], bool(idle)
        return idle


def _held_by_script(tensor: Tensor) -> bool:
    if tensor.layout != torch.strided:
        return False
    storage = tensor.untyped_storage()
    uses = tensor._use_count()  # type: ignore[attr-defined] # not in torch's stubs
    return (uses, torch._C._storage_Use_Count(storage._cdata)) == HELD_BY_SCRIPT
