"""Shape rules for operators whose own rule is missing, incomplete or too strict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from memorymark.prediction.tracing import ctc, cuda_recurrent
from memorymark.prediction.tracing.grouped_products import grouped_product

SHAPE_RULES: dict[Any, Callable[..., Any]] = {
    **cuda_recurrent.SHAPE_RULES,
    **ctc.SHAPE_RULES,
    torch.ops.aten._grouped_mm.default: grouped_product,
}


def fills_masked(func: Any, args: Any) -> bool:
    """Tells whether it is ``tensor[mask] = number``, which the device fills in place, however much the mask selects."""
    if not func.name().startswith("aten::index_put") or len(args) < 3 or len(args[1]) != 1:
        return False
    mask, value = args[1][0], args[2]
    return isinstance(mask, torch.Tensor) and mask.dtype in (torch.bool, torch.uint8) and value.dim() == 0
