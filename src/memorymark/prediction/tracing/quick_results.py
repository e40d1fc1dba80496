"""What operations on fake tensors return, looked up by what they are given: like layers do the same over and over.

torch's own cache does the same, but looks at so much more that a lookup takes as long as many operations.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_PLAIN = frozenset(
    {int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format},
)
_LISTS = frozenset({list, tuple, torch.Size})
# Such results depend on values, or the operation changes the shape of its input.
_NEVER = frozenset(
    {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view},
)


class _Output(NamedTuple):
    """A tensor that an operation returns: the ``given`` one, or another in its storage or in a new one."""

    given: int | None
    is_given: bool
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device


class _Result(NamedTuple):
    """All that an operation returns; ``kind`` is that of the list, if it is one."""

    outputs: tuple[_Output | None, ...]
    kind: type[list[Any]] | type[tuple[Any, ...]] | None


class QuickResults:
    """Runs operations on the tensors of a fake mode; once for all that are given the same."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self._fake_mode = fake_mode
        self._known: dict[Hashable, _Result | None] = {}

    def of(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Returns an operation's result."""
        inputs: list[Tensor] = []
        key = self._key(func, args, kwargs, inputs) if _may_be_known(func) else None
        if key is None:
            return func(*args, **kwargs)
        found = self._known.get(key)
        if found is not None:
            return self._made(found, inputs)
        result = func(*args, **kwargs)
        if key not in self._known:
            is_as_it_was = self._key(func, args, kwargs, []) == key  # a result to write to may have been resized
            self._known[key] = self._described(result, inputs) if is_as_it_was else None
        return result

    def _key(self, func: Any, args: Any, kwargs: Any, inputs: list[Tensor]) -> Hashable | None:
        """Returns all that a result follows from, and adds the tensors to ``inputs``; ``None`` if that is too much."""
        parts: list[object] = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        known = self._add(parts, args, inputs) and self._add(parts, (*kwargs, *kwargs.values()), inputs)
        return tuple(parts) if known else None

    def _add(self, parts: list[object], values: Iterable[Any], inputs: list[Tensor]) -> bool:
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if value.constant is not None or value.fake_mode is not self._fake_mode:
                    return False
                keys = torch._C._dispatch_keys(value).raw_repr()
                parts += value.shape, value.stride(), value.storage_offset(), value.dtype, value.fake_device, keys
                parts.append(value.requires_grad)
                inputs.append(value)
            elif kind in _PLAIN:
                parts += kind, value  # 1 and 1.0 are equal, but not for types
            elif kind in _LISTS:
                parts += kind, len(value)
                if not self._add(parts, value, inputs):
                    return False
            else:
                return False
        return True

    def _described(self, result: Any, inputs: Sequence[Tensor]) -> _Result | None:
        """Returns what is needed to make such a result again; ``None`` if it cannot be made."""
        kind = type(result) if type(result) in (list, tuple) else None
        outputs = list(result) if kind else [result]
        if not all(one is None or self._is_plain(one) for one in outputs):
            return None
        storages = [tensor.untyped_storage()._cdata for tensor in inputs]
        new = [one.untyped_storage()._cdata for one in outputs if one is not None]
        if len(new) > len({*new} - {*storages}) + sum(one in storages for one in new):
            return None  # two of them share a new storage
        if any(len(_places(one, inputs, storages)) > 1 for one in outputs if one is not None):
            return None  # the next may be given different tensors there
        described = _Result(tuple(None if one is None else _output(one, inputs, storages) for one in outputs), kind)
        again = self._made(described, inputs)
        same = map(_is_like, outputs, again if kind else [again])
        return described if all(same) else None

    def _is_plain(self, tensor: Any) -> bool:
        return type(tensor) is FakeTensor and tensor.constant is None and not tensor.requires_grad

    def _made(self, result: _Result, inputs: Sequence[Tensor]) -> Any:
        made = [None if one is None else self._tensor(one, inputs) for one in result.outputs]
        return result.kind(made) if result.kind is not None else made[0]

    def _tensor(self, output: _Output, inputs: Sequence[Tensor]) -> Tensor:
        given, is_given, shape, stride, offset, dtype, device = output
        if given is not None and is_given:
            return inputs[given]
        with torch._C._DisableTorchDispatch():
            inside = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
            if given is not None:
                inside.set_(inputs[given].untyped_storage(), offset, shape, stride)
        return FakeTensor(self._fake_mode, inside, device)


@cache
def _may_be_known(func: Any) -> bool:
    """Tells whether what an operation returns follows from the shapes that it is given."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace not in ("aten", "prims"):
        return False
    is_split_up = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return not is_split_up and _NEVER.isdisjoint(func.tags)


def _output(tensor: Tensor, inputs: Sequence[Tensor], storages: Sequence[int]) -> _Output:
    given = next(iter(_places(tensor, inputs, storages)), None)
    is_given = given is not None and inputs[given] is tensor
    place = tensor.shape, tensor.stride(), int(tensor.storage_offset())
    return _Output(given, is_given, *place, tensor.dtype, tensor.fake_device)  # type: ignore[attr-defined]


def _places(tensor: Tensor, inputs: Sequence[Tensor], storages: Sequence[int]) -> list[int]:
    """Returns at which places a result was given or, if it was not, what shares its storage."""
    storage = tensor.untyped_storage()._cdata
    same = [at for at, one in enumerate(inputs) if one is tensor]
    return same or [at for at, one in enumerate(storages) if one == storage]


def _is_like(tensor: Any, other: Any) -> bool:
    return tensor is other or bool(
        tensor.shape == other.shape
        and tensor.stride() == other.stride()
        and tensor.storage_offset() == other.storage_offset()
        and tensor.untyped_storage().nbytes() == other.untyped_storage().nbytes()
        and tensor.dtype == other.dtype
        and torch._C._dispatch_keys(tensor).raw_repr() == torch._C._dispatch_keys(other).raw_repr()
    )
