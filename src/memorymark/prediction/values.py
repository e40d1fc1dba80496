"""The values of small fake tensors, where they are known: a model may look at them, at a mask without padding, say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map_only

# Values are worth computing where a model may branch on them. Those are words, positions and masks of a whole batch
# of long texts; large tensors of other numbers are not of that kind.
MAX_KNOWN_ELEMENTS = 2**16
MAX_KNOWN_COUNTS = 2**22
# Above every probability.
NO_CHANCE = 0.999999


@dataclass(frozen=True, slots=True)
class _Value:
    """What a fake tensor really holds. It hangs on the storage, because autograd makes new tensors of what it saves."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    real: Tensor
    random: bool
    writes: int


def _value(tensor: Tensor) -> _Value | None:
    storage = tensor.untyped_storage()
    found: _Value | None = getattr(tensor, "_memorymark_value", None) or getattr(storage, "_memorymark_value", None)
    if found is None or found.writes != _writes(storage):
        return None
    return found if (found.shape, found.stride, found.offset) == _place(tensor) else None


def _writes(storage: torch.UntypedStorage) -> int:
    """How often something unknown was written there."""
    return getattr(storage, "_memorymark_writes", 0)


def _place(tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], int]:
    return tensor.shape, tensor.stride(), int(tensor.storage_offset())


def known(tensor: Tensor) -> Tensor | None:
    """What a tensor really holds; ``None`` if nobody knows."""
    if not isinstance(tensor, FakeTensor):
        return tensor
    kept = _value(tensor)
    return kept.real if kept else None


def is_random(tensor: Tensor) -> bool:
    """Whether a known tensor came from random numbers."""
    kept = _value(tensor)
    return kept is not None and kept.random


def run_on_values(func: Any, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> Any:
    """The operation's real result if all its inputs are known and the result is small enough; ``None`` otherwise.

    ``outputs`` are the fake results, none where their size is not known yet.
    """
    if any(known(tensor) is None for tensor in inputs) or not all(map(_is_small, outputs)):
        if func._schema.is_mutable and not func.name().startswith("aten::_amp"):
            for tensor in _written(func, args, kwargs):
                _forget_value(tensor)
        return None
    try:
        real_args, real_kwargs = tree_map_only(Tensor, known, (args, kwargs))
        with torch._C._DisableTorchDispatch():
            value = func(*real_args, **real_kwargs)
            # Drawn to decide whether a layer is skipped; the step to plan for is the one that skips none.
            return (
                torch.full_like(value, NO_CHANCE) if func is torch.ops.aten.rand.default and not value.dim() else value
            )
    except Exception:  # a value that nobody can compute is one that nobody knows
        return None


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that an operation changes."""
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    changed = (given.get(a.name) for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    return [leaf for leaf in tree_leaves(list(changed)) if isinstance(leaf, Tensor)]


def _is_small(tensor: Tensor) -> bool:
    counts = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    return tensor.numel() <= (MAX_KNOWN_COUNTS if counts else MAX_KNOWN_ELEMENTS)


def keep_values(result: Any, value: Any, *, random: bool) -> None:
    """Notes what the results of an operation really hold."""
    for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
        if isinstance(fake, FakeTensor) and isinstance(real, Tensor) and _is_small(real):
            storage = fake.untyped_storage()
            kept = _Value(*_place(fake), real, random, _writes(storage))
            fake._memorymark_value = kept  # type: ignore[attr-defined]
            storage._memorymark_value = kept  # type: ignore[attr-defined]


def _forget_value(tensor: Tensor) -> None:
    """Something unknown is written there, so that no tensor on that storage is known any more."""
    storage = tensor.untyped_storage()
    storage._memorymark_writes = _writes(storage) + 1  # type: ignore[attr-defined]


def is_uniform(tensor: Tensor) -> bool:
    """Whether a known mask is true everywhere or nowhere, and so the same for whatever random values it came from."""
    real = known(tensor)
    with torch._C._DisableTorchDispatch():
        return real is not None and (real.numel() == 0 or bool((real != 0).all()) or not bool((real != 0).any()))
