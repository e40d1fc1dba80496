"""The values of small fake tensors, if known: a model may read them, such as a mask without padding."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map_only

# Values are computed if a model may branch on them: token ids, positions and masks of a whole batch of long texts.
# Models do not branch on larger tensors.
MAX_KNOWN_ELEMENTS = 2**16
MAX_KNOWN_COUNTS = 2**22
# Which token goes to which expert, for every token and expert of a layer.
MAX_ROUTED = 2**25
# Above every probability.
NO_CHANCE = 0.999999


class Origin(IntEnum):
    """Where values come from; those of several origins count as the last of them."""

    CERTAIN = 0
    ROUTED = 1
    """A router's choice of experts, which is assumed."""
    RANDOM = 2


@dataclass(frozen=True, slots=True)
class _Value:
    """The real values of a fake tensor, attached to its storage, because autograd makes new tensors of saved ones."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    real: Tensor
    origin: Origin
    writes: int


def _value(tensor: Tensor) -> _Value | None:
    storage = tensor.untyped_storage()
    found: _Value | None = getattr(tensor, "_memorymark_value", None) or getattr(storage, "_memorymark_value", None)
    if found is None or found.writes != _writes(storage):
        return None
    return found if (found.shape, found.stride, found.offset) == _place(tensor) else None


def _writes(storage: torch.UntypedStorage) -> int:
    """Returns how often unknown values were written to a storage."""
    return getattr(storage, "_memorymark_writes", 0)


def _place(tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], int]:
    return tensor.shape, tensor.stride(), int(tensor.storage_offset())


def known(tensor: Tensor) -> Tensor | None:
    """Returns the values of a tensor; ``None`` if unknown."""
    if not isinstance(tensor, FakeTensor):
        return tensor
    kept = _value(tensor)
    return kept.real if kept else None


def origin_of(tensors: list[Tensor]) -> Origin:
    """Returns where the values of those tensors come from that are known."""
    kept = (_value(tensor) for tensor in tensors if isinstance(tensor, FakeTensor))
    return max((value.origin for value in kept if value is not None), default=Origin.CERTAIN)


def run_on_values(func: Any, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> Any:
    """Returns the operation's real result if all its inputs are known and the result is small enough, else ``None``.

    ``outputs`` are the fake results; empty if their size is not known yet.
    """
    if any(known(tensor) is None for tensor in inputs) or not _are_small(outputs, origin_of(inputs)):
        if func._schema.is_mutable and not func.name().startswith("aten::_amp"):
            for tensor in _written(func, args, kwargs):
                _forget_value(tensor)
        return None
    try:
        real_args, real_kwargs = tree_map_only(Tensor, known, (args, kwargs))
        with torch._C._DisableTorchDispatch():
            value = func(*real_args, **real_kwargs)
            # Drawn to decide whether to skip a layer; plan for the step that skips none.
            return (
                torch.full_like(value, NO_CHANCE) if func is torch.ops.aten.rand.default and not value.dim() else value
            )
    except Exception:  # a value that cannot be computed is unknown
        return None


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Returns the tensors that an operation changes."""
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    changed = (given.get(a.name) for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    return [leaf for leaf in tree_leaves(list(changed)) if isinstance(leaf, Tensor)]


def _are_small(tensors: list[Tensor], origin: Origin) -> bool:
    return all(tensor.numel() <= _most_elements(tensor, origin) for tensor in tensors)


def _most_elements(tensor: Tensor, origin: Origin) -> int:
    if origin is Origin.ROUTED:
        return MAX_ROUTED
    counts = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    return MAX_KNOWN_COUNTS if counts else MAX_KNOWN_ELEMENTS


def keep_values(result: Any, value: Any, origin: Origin) -> None:
    """Keeps the real values of an operation's results."""
    for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
        if isinstance(fake, FakeTensor) and isinstance(real, Tensor) and _are_small([real], origin):
            storage = fake.untyped_storage()
            kept = _Value(*_place(fake), real, origin, _writes(storage))
            fake._memorymark_value = kept  # type: ignore[attr-defined]
            storage._memorymark_value = kept  # type: ignore[attr-defined]


def _forget_value(tensor: Tensor) -> None:
    """Forgets the values of all tensors on a storage, because unknown values were written to it."""
    storage = tensor.untyped_storage()
    storage._memorymark_writes = _writes(storage) + 1  # type: ignore[attr-defined]


def is_uniform(tensor: Tensor) -> bool:
    """Tells whether a known mask is all true or all false, and so does not depend on random values."""
    real = known(tensor)
    with torch._C._DisableTorchDispatch():
        return real is not None and (real.numel() == 0 or bool((real != 0).all()) or not bool((real != 0).any()))
