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
