"""The shape rule of grouped matrix products, with which the experts of a mixture are computed at once.

Rows are sorted by expert, so the memory of a product does not depend on how many rows each expert gets.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Rows of a result start at multiples of this many bytes.
ROW_ALIGNMENT_BYTES = 16


def grouped_product(
    left: Tensor,
    right: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,  # noqa: ARG001 - the operator's signature
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Returns the result of ``aten._grouped_mm``; torch's own rule knows bf16 alone, but CUDA takes every type."""
    if left.dim() == 2 and right.dim() == 2:
        assert offs is not None  # noqa: S101 - the operator demands it where both are flat
        size = [offs.size(0), left.size(0), right.size(1)]
    elif left.dim() == 3 and right.dim() == 3:
        size = [left.size(0), left.size(1), right.size(2)]
    else:
        size = [left.size(-2), right.size(-1)]
    dtype = out_dtype or left.dtype
    aligned = ROW_ALIGNMENT_BYTES // dtype.itemsize
    row = -(-size[-1] // aligned) * aligned
    stride = [row, 1] if len(size) == 2 else [size[1] * row, row, 1]
    return left.new_empty_strided(size, stride, dtype=dtype)
