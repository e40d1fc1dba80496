"""Runs a training step on fake tensors and writes down every operation, and what memory it asks for and gives back.

Fake tensors have shapes but no data, so a step takes about a second whatever its size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from memorymark.errors import CannotPredictError
from memorymark.prediction.cuda_recurrent import SHAPE_RULES
from memorymark.prediction.operation import GRADIENTS_MEET, Operation, StepTrace, TensorFacts
from memorymark.prediction.values import is_random, is_uniform, keep_values, known, run_on_values
from memorymark.storages import StorageNumbers
from memorymark.trace import Phase

_ASKS_FOR_A_VALUE = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.item.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.aten.equal.default,
}


class Tracer(TorchDispatchMode):
    """Writes operations into ``trace`` while one is set."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace: StepTrace | None = None
        self._fake_mode = fake_mode
        self._freed: list[int] = []
        self._numbers = StorageNumbers(self._freed.append)
        self._in_backward = self._in_optimizer = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to make sure of that at every operation takes time."""
        return False

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
        return self._numbers.number(tensor.untyped_storage())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation on fake tensors, and on values where they are known."""
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].device  # asked for several times by each operation
        kwargs = kwargs or {}
        if func.namespace not in ("aten", "prims"):
            return func(*args, **kwargs)
        inputs = _tensors((args, kwargs))
        if func in _ASKS_FOR_A_VALUE:
            value = run_on_values(func, args, kwargs, inputs, [])
            if value is not None:
                return value
            if self._in_optimizer:
                return 1.0  # a factor in an update: the update takes the same memory whatever it is
            raise CannotPredictError(
                "the model looks at a value (.item(), a branch on a tensor) that only a run knows; measure it on a GPU."
            )
        facts = tuple(self._facts(tensor) for tensor in inputs)
        first_new = self._numbers.next
        random = any(is_random(tensor) for tensor in inputs)
        try:
            result = SHAPE_RULES.get(func, func)(*_without_masks(func, args, self._fake_mode), **kwargs)
        except DynamicOutputShapeException:
            value = run_on_values(func, args, kwargs, inputs, [])
            if value is None or (random and not all(is_uniform(tensor) for tensor in inputs)):
                raise _size_unknown(func) from None
            with self._fake_mode:
                result = tree_map_only(Tensor, lambda real: torch.empty_like(real, device="cpu"), value)
        else:
            value = run_on_values(func, args, kwargs, inputs, _tensors(result))
        if value is not None:
            keep_values(result, value, random=random or torch.Tag.nondeterministic_seeded in func.tags)
        outputs = _tensors(result)
        if self.trace is not None and any(tensor.dim() for tensor in (*inputs, *outputs)):
            made_facts = tuple(self._facts(tensor) for tensor in outputs)
            made = {
                f.storage: t.untyped_storage().nbytes()
                for f, t in zip(made_facts, outputs, strict=True)
                if f.storage >= first_new and t.dim() > 0 and not _looks_at_the_script_s(func, inputs)
            }
            # Without the scale of attention's scores, which could not be told from the share that is dropped out.
            given = tree_leaves((args, {name: value for name, value in kwargs.items() if name != "scale"}))
            arguments = tuple(leaf for leaf in given if leaf is None or isinstance(leaf, (bool, int, float)))
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


def _looks_at_the_script_s(func: Any, inputs: list[Tensor]) -> bool:
    """Whether it gives a view of a tensor that was there before, as of a data set on the host; constants are copied."""
    is_constant = func is torch.ops.aten.lift_fresh.default
    return func.is_view and not is_constant and any(not isinstance(tensor, FakeTensor) for tensor in inputs)


def _tensors(tree: Any) -> list[Tensor]:
    """The tensors of what an operation takes or gives: tensors, numbers, and lists of them."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return []
    return [tensor for part in tree for tensor in _tensors(part)]


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
        real = known(index) if isinstance(index, Tensor) else None
        if real is None or real.dtype not in (torch.bool, torch.uint8):
            indices.append(index)
            continue
        if is_random(index) and not is_uniform(index):
            raise _size_unknown(func)
        with torch._C._DisableTorchDispatch():
            places = real.nonzero().unbind(1)
        for place in places:
            with fake_mode:
                indices.append(torch.empty(place.shape, dtype=torch.long, device="cpu"))
    return (args[0], indices, *args[2:])
