"""Fills large tensors on the host in no time: neither memory nor speed depends on the values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

DRAWN = 1 << 20
_DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)


class RepeatedValues(TorchDispatchMode):
    """Draws a million random numbers for a tensor and repeats them; billions take a CPU minutes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Draws fewer numbers than asked for, or runs the operation."""
        filled = args[0] if func in _DRAWS else None
        if not isinstance(filled, Tensor) or filled.numel() <= DRAWN or not filled.is_contiguous():
            return func(*args, **(kwargs or {}))
        values = func(filled.new_empty(DRAWN), *args[1:], **(kwargs or {}))
        flat = filled.view(-1)
        whole = flat.numel() // DRAWN * DRAWN
        flat[:whole].view(-1, DRAWN).copy_(values)
        flat[whole:].copy_(values[: flat.numel() - whole])
        return filled
