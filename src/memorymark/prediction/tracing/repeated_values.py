"""The values of large tensors that repeat few of them, such as a mask of ones: no memory is taken for the others.

A dimension along which nothing changes has a stride of zero, as ``expand`` makes it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

_aten = torch.ops.aten
# They make one value many times, in a shape that is their argument of this place, or in that of their input.
_FILLS: dict[Any, int | None] = {
    _aten.ones.default: 0,
    _aten.zeros.default: 0,
    _aten.full.default: 0,
    _aten.new_ones.default: 1,
    _aten.new_zeros.default: 1,
    _aten.new_full.default: 1,
    _aten.ones_like.default: None,
    _aten.zeros_like.default: None,
    _aten.full_like.default: None,
}
_COPIES = {_aten._to_copy.default, _aten.clone.default}
# What they say of many values they say of each of these once.
LOOKS_AT_EACH = {_aten.all.default, _aten.any.default, _aten.min.default, _aten.max.default}
# Conditions on more places than this are not looked at, which takes time.
MOST_CONDITIONS = 2**16


def without_repeats(real: Tensor) -> Tensor:
    """Returns the values that a tensor repeats, once."""
    for dimension, stride in enumerate(real.stride()):
        if stride == 0 and real.shape[dimension] > 1:
            real = real.narrow(dimension, 0, 1)
    return real


def repeated(func: Any, args: Any, kwargs: Any, output: Tensor, most: int) -> Tensor | None:
    """Returns the result of an operation if it repeats at most so many values; ``None`` otherwise."""
    shape = output.shape
    if func in _FILLS:
        place = _FILLS[func]
        if place is not None:
            args = (*args[:place], [1] * len(shape), *args[place + 1 :])
    elif not _is_elementwise(func):
        return None
    args, kwargs = tree_map_only(Tensor, _once, (args, kwargs))
    shapes = [leaf.shape for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if prod(torch.broadcast_shapes(*shapes)) > most:
        return None
    value: Tensor = func(*args, **kwargs)
    return value.expand(shape)


def _is_elementwise(func: Any) -> bool:
    """Tells whether equal elements of the inputs make equal elements of a new result."""
    is_known = func in _COPIES or torch.Tag.pointwise in func.tags
    return is_known and not func._schema.is_mutable and torch.Tag.nondeterministic_seeded not in func.tags


def _once(real: Tensor) -> Tensor:
    """Returns the values that a tensor repeats, once; of a condition that holds everywhere only one."""
    real = without_repeats(real)
    if real.dtype != torch.bool or not 1 < real.numel() <= MOST_CONDITIONS or bool(real.any()) != bool(real.all()):
        return real
    return real[(slice(1),) * real.dim()]
