"""Runs a training step on fake tensors and writes down every operation, and what memory it asks for and gives back.

Fake tensors have shapes but no data, so a step takes about a second whatever its size. Where a model looks at values
(a mask without padding, say), small integer tensors are computed for real alongside.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from memorymark.errors import CannotPredictError
from memorymark.trace import Owner, Phase

# Values are worth computing where a model may branch on them; large tensors are not of that kind.
MAX_KNOWN_ELEMENTS = 2**16
# Above every probability.
NO_CHANCE = 0.999999
GRADIENTS_MEET = "autograd.add"
"""The name under which the sum of two gradients of one tensor is written down."""
_ASKS_FOR_A_VALUE = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.item.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.aten.equal.default,
}


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor as an operation saw it. ``storage`` numbers the memory behind it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    storage: int
    contiguous: bool
    channels_last: bool = False

    @property
    def numel(self) -> int:
        """How many elements it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """What its elements take."""
        return self.numel * self.dtype.itemsize


@dataclass(slots=True)
class Operation:
    """One call of one operator.

    ``freed`` are the storages that died since the operation before, ``made`` the new ones with their bytes. ``eager``
    says that Python code called it, as in the forward pass, and not autograd.
    """

    name: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    arguments: tuple[Any, ...]
    freed: tuple[int, ...]
    made: tuple[tuple[int, int], ...]
    eager: bool = False


@dataclass
class StepTrace:
    """All operations of one step, and after how many of them each phase ended.

    ``owners`` says whose the lasting storages were after the last backward pass.
    """

    operations: list[Operation] = field(default_factory=list)
    marks: list[tuple[Phase, int]] = field(default_factory=list)
    owners: dict[Hashable, Owner] = field(default_factory=dict)


class Tracer(TorchDispatchMode):
    """Writes operations into ``trace`` while one is set."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace: StepTrace | None = None
        self._fake_mode = fake_mode
        self._numbers: dict[int, int] = {}
        self._references: dict[int, weakref.ref[Any]] = {}
        self._next_number = 0
        self._freed: list[int] = []
        self._in_backward = self._in_optimizer = False

    def start(self) -> StepTrace:
        """Begins a new trace."""
        self.trace = StepTrace()
        self._freed.clear()
        return self.trace

    def mark(self, phase: Phase) -> None:
        """A phase of the step has just ended."""
        assert self.trace is not None  # noqa: S101 - marks come from a traced step
        self._write("phase end", (), (), (), ())
        self._in_backward, self._in_optimizer = phase == "forward", phase == "backward"
        self.trace.marks.append((phase, len(self.trace.operations)))

    def number_of(self, tensor: Tensor) -> int:
        """The number of the memory behind a tensor, a new one if it was not seen before."""
        storage = tensor.untyped_storage()
        number = self._numbers.get(id(storage))
        if number is None:
            number, self._next_number = self._next_number, self._next_number + 1
            self._numbers[id(storage)] = number
            self._references[number] = weakref.ref(storage, partial(self._forget, id(storage), number))
        return number

    def _forget(self, key: int, number: int, _: object) -> None:
        del self._numbers[key], self._references[number]
        self._freed.append(number)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation on fake tensors, and on values where they are known."""
        kwargs = kwargs or {}
        if func.namespace not in ("aten", "prims"):
            return func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        inputs = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        value = _run_on_values(func, args, kwargs, inputs)
        if func in _ASKS_FOR_A_VALUE:
            if value is not None:
                return value
            if self._in_optimizer:
                return 1.0  # a factor in an update: the update takes the same memory whatever it is
            raise CannotPredictError(
                "the model looks at a value (.item(), a branch on a tensor) that only a run knows; measure it on a GPU."
            )
        facts = tuple(self._facts(tensor) for tensor in inputs)
        first_new = self._next_number
        random = any(_is_random(tensor) for tensor in inputs)
        try:
            result = func(*_without_masks(func, args, self._fake_mode), **kwargs)
        except DynamicOutputShapeException:
            if value is None or (random and not all(_is_uniform(tensor) for tensor in inputs)):
                raise _size_unknown(func) from None
            with self._fake_mode:
                result = tree_map_only(Tensor, lambda real: torch.empty_like(real, device="cpu"), value)
        if value is not None:
            _keep_values(result, value, random=random or torch.Tag.nondeterministic_seeded in func.tags)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if self.trace is not None and any(tensor.dim() for tensor in (*inputs, *outputs)):
            made_facts = tuple(self._facts(tensor) for tensor in outputs)
            made = {
                f.storage: t.untyped_storage().nbytes()
                for f, t in zip(made_facts, outputs, strict=True)
                if f.storage >= first_new and t.dim() > 0
            }
            arguments = tuple(leaf for leaf in leaves if leaf is None or isinstance(leaf, (bool, int, float)))
            storages = list(made.items())
            if func is torch.ops.aten.native_dropout.default:
                storages.reverse()  # the kernel asks for the mask first
            meeting = func is torch.ops.aten.add.Tensor and self._in_backward and not torch.is_grad_enabled()
            self._write(GRADIENTS_MEET if meeting else str(func), facts, made_facts, arguments, tuple(storages))
        return result

    def _write(self, name: str, inputs: Any, outputs: Any, arguments: Any, made: Any) -> None:
        assert self.trace is not None  # noqa: S101 - checked by the caller
        eager = torch.is_grad_enabled()
        self.trace.operations.append(Operation(name, inputs, outputs, arguments, tuple(self._freed), made, eager))
        self._freed.clear()

    def _facts(self, tensor: Tensor) -> TensorFacts:
        contiguous = tensor.is_contiguous()
        channels_last = not contiguous and tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        return TensorFacts(tuple(tensor.shape), tensor.dtype, self.number_of(tensor), contiguous, channels_last)


def add_in_place(trace: StepTrace) -> StepTrace:
    """Turns sums into sums in place where torch adds in place to plain tensors, but not to fake ones.

    Autograd does so when gradients meet, and attention when it adds a bias: into the first of the two, if it fills its
    memory, is no view of another tensor and nobody else needs it.
    """
    operations = [replace(operation) for operation in trace.operations]
    renamed: dict[int, int] = {}
    sizes: dict[int, int] = {}
    views: set[TensorFacts] = set()
    for operation, following in pairwise(operations):
        operation.freed = tuple(renamed.get(number, number) for number in operation.freed)
        sizes.update(operation.made)
        if "detach" not in operation.name:
            views -= set(operation.outputs)
            views |= {tensor for tensor in operation.outputs if tensor.storage not in dict(operation.made)}
        adds_bias = operation.name == "aten.add.Tensor" and following.name == "aten._safe_softmax.default"
        if not (operation.name == GRADIENTS_MEET or adds_bias) or len(operation.inputs) != 2 or not operation.made:
            continue
        first, second = operation.inputs
        place, other = (renamed.get(tensor.storage, tensor.storage) for tensor in (first, second))
        dying = {renamed.get(number, number) for number in following.freed}
        whole = adds_bias or (first not in views and first.nbytes == sizes.get(place))
        if not (whole and place in dying and place != other and first.dtype == operation.outputs[0].dtype):
            continue
        renamed[operation.made[0][0]] = place
        operation.made = ()
        following.freed = tuple(number for number in following.freed if renamed.get(number, number) != place)
    operations[-1].freed = tuple(renamed.get(number, number) for number in operations[-1].freed)
    owners: dict[Hashable, Owner] = {
        renamed.get(number, number) if isinstance(number, int) else number: owner
        for number, owner in trace.owners.items()
    }
    return StepTrace(operations, trace.marks, owners)


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


def _known(tensor: Tensor) -> Tensor | None:
    if not isinstance(tensor, FakeTensor):
        return tensor
    kept = _value(tensor)
    return kept.real if kept else None


def _is_random(tensor: Tensor) -> bool:
    kept = _value(tensor)
    return kept is not None and kept.random


def _run_on_values(func: Any, args: Any, kwargs: Any, inputs: list[Tensor]) -> Any:
    """The operation's real result if all its inputs are known; ``None`` otherwise."""
    if any(_known(tensor) is None for tensor in inputs):
        if func._schema.is_mutable and not func.name().startswith("aten::_amp"):
            for tensor in _written(func, args, kwargs):
                _forget_value(tensor)
        return None
    if not inputs and _asked_elements(args) > MAX_KNOWN_ELEMENTS:
        return None
    if sum(tensor.numel() for tensor in inputs) > 4 * MAX_KNOWN_ELEMENTS:
        return None
    try:
        real_args, real_kwargs = tree_map_only(Tensor, _known, (args, kwargs))
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


def _asked_elements(args: Any) -> int:
    sizes = next((arg for arg in args if isinstance(arg, (list, tuple, torch.Size))), ())
    count = 1
    for size in sizes:
        count *= size if isinstance(size, int) else 1
    return count


def _keep_values(result: Any, value: Any, *, random: bool) -> None:
    for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
        if isinstance(fake, FakeTensor) and isinstance(real, Tensor) and real.numel() <= MAX_KNOWN_ELEMENTS:
            storage = fake.untyped_storage()
            kept = _Value(*_place(fake), real, random, _writes(storage))
            fake._memorymark_value = kept  # type: ignore[attr-defined]
            storage._memorymark_value = kept  # type: ignore[attr-defined]


def _forget_value(tensor: Tensor) -> None:
    """Something unknown is written there, so that no tensor on that storage is known any more."""
    storage = tensor.untyped_storage()
    storage._memorymark_writes = _writes(storage) + 1  # type: ignore[attr-defined]


def _is_uniform(tensor: Tensor) -> bool:
    """Whether a known mask is true everywhere or nowhere, and so the same for whatever random values it came from."""
    real = _known(tensor)
    with torch._C._DisableTorchDispatch():
        return real is not None and (real.numel() == 0 or bool((real != 0).all()) or not bool((real != 0).any()))


def _size_unknown(func: Any) -> CannotPredictError:
    return CannotPredictError(
        f"{func} gives a result whose size depends on values that only a run knows; measure it on a GPU."
    )


def _without_masks(func: Any, args: Any, fake_mode: FakeTensorMode) -> Any:
    """Known boolean masks in an indexing operation become the indices they stand for, as on the device."""
    if not func.name().startswith("aten::index") or len(args) < 2 or not isinstance(args[1], (list, tuple)):
        return args
    indices: list[Any] = []
    for index in args[1]:
        real = _known(index) if isinstance(index, Tensor) else None
        if real is None or real.dtype not in (torch.bool, torch.uint8):
            indices.append(index)
            continue
        if _is_random(index) and not _is_uniform(index):
            raise _size_unknown(func)
        with torch._C._DisableTorchDispatch():
            places = real.nonzero().unbind(1)
        for place in places:
            with fake_mode:
                indices.append(torch.empty(place.shape, dtype=torch.long, device="cpu"))
    return (args[0], indices, *args[2:])
