"""The values of small fake tensors, if known: a model may read them, such as a mask without padding."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves, tree_map_only

from memorymark.prediction.tracing.repeated_values import LOOKS_AT_EACH, repeated, without_repeats

# Values are computed if a model may branch on them: token ids, positions and masks of a whole batch of long texts.
# Models do not branch on larger tensors.
MAX_KNOWN_ELEMENTS = 2**16
MAX_KNOWN_COUNTS = 2**22
# Of a buffer.
MAX_NOTED = 2**12
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

    ``outputs`` are the fake results; empty if their size is not known yet. A large one is small enough if it repeats
    few values, such as a mask of ones.
    """
    value = None
    if all(known(tensor) is not None for tensor in inputs):
        try:
            real_args, real_kwargs = tree_map_only(Tensor, known, (args, kwargs))
            with torch._C._DisableTorchDispatch():
                value = _computed(func, real_args, real_kwargs, inputs, outputs)
        except Exception:  # a value that cannot be computed is unknown
            value = None
    if func._schema.is_mutable and not func.name().startswith("aten::_amp"):
        for tensor in _written(func, args, kwargs):
            if value is None or not _is_whole(tensor):
                _forget_value(tensor)
    return value


def _computed(func: Any, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]) -> Any:
    """Returns an operation's result on real tensors; ``None`` if it is large and does not repeat few values."""
    origin = origin_of(inputs)
    if func.is_view:
        return func(*args, **kwargs)
    if len(outputs) == 1 and outputs[0].numel() > MAX_KNOWN_ELEMENTS:
        value = repeated(func, args, kwargs, outputs[0], MAX_KNOWN_ELEMENTS)
        if value is not None:
            return value
    if not all(tensor.numel() <= _most_elements(tensor, origin) for tensor in outputs):
        return None
    if func in LOOKS_AT_EACH:
        args = (without_repeats(args[0]),)
    elif func._schema.is_mutable and not all(_is_whole(tensor) for tensor in inputs):
        copies = {id(real): real.clone() for real in tree_leaves((args, kwargs)) if isinstance(real, Tensor)}
        args, kwargs = tree_map_only(Tensor, lambda real: copies[id(real)], (args, kwargs))
    value = func(*args, **kwargs)
    # Drawn to decide whether to skip a layer; plan for the step that skips none.
    return torch.full_like(value, NO_CHANCE) if func is torch.ops.aten.rand.default and not value.dim() else value


def _is_whole(tensor: Tensor) -> bool:
    """Tells whether the values of a tensor's memory are all there, and not a few that it repeats."""
    real = known(tensor)
    return real is None or real.untyped_storage().nbytes() >= tensor.untyped_storage().nbytes()


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Returns the tensors that an operation changes."""
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    changed = (given.get(a.name) for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    return [leaf for leaf in tree_leaves(list(changed)) if isinstance(leaf, Tensor)]


def _is_small(real: Tensor, origin: Origin) -> bool:
    return without_repeats(real).numel() <= _most_elements(real, origin)


def _most_elements(tensor: Tensor, origin: Origin) -> int:
    if origin is Origin.ROUTED:
        return MAX_ROUTED
    counts = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    return MAX_KNOWN_COUNTS if counts else MAX_KNOWN_ELEMENTS


def note_values(tensor: Tensor, real: Tensor) -> None:
    """Notes the few values of a tensor that a prediction copies without them, such as a counter or a pointer."""
    if real.numel() <= MAX_NOTED:
        tensor._memorymark_noted = real.detach().cpu().clone()  # type: ignore[attr-defined]


def initial_values(tensor: Tensor) -> Tensor | None:
    """Returns the values that were noted for a tensor, or that it has itself if they are few."""
    noted: Tensor | None = getattr(tensor, "_memorymark_noted", None)
    if noted is None and tensor.device.type == "cpu" and type(tensor) is Tensor and tensor.numel() <= MAX_NOTED:
        noted = tensor
    with torch._C._DisableTorchDispatch():  # a fake mode would make fake copies
        return noted.detach().clone() if noted is not None else None


def keep_values(result: Any, value: Any, origin: Origin) -> None:
    """Keeps the real values of an operation's results."""
    for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
        if isinstance(fake, FakeTensor) and isinstance(real, Tensor) and _is_small(real, origin):
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
        if real is None:
            return False
        real = without_repeats(real)
        return real.numel() == 0 or bool((real != 0).all()) or not bool((real != 0).any())
