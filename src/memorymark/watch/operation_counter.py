"""Counts the operations of a step while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from memorymark.devices.allocations import Phase
from memorymark.prediction.tracing.operation import GRADIENTS_MEET, Operation, TensorFacts
from memorymark.watch.operations import StepOperation, StepOperations

# More different operations than any step that repeats its layers has.
MOST_KINDS = 20_000
# What cuDNN's batch norm is called in a trace.
RENAMED = {
    "aten.cudnn_batch_norm.default": "aten.native_batch_norm.default",
    "aten.cudnn_batch_norm_backward.default": "aten.native_batch_norm_backward.default",
}


class OperationCounter(TorchDispatchMode):
    """Counts the operations on a device between ``start`` and ``stop``; keeps no tensor alive."""

    def __init__(self, device_type: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase: Phase = "forward"
        self.is_on = False
        self._device_type = device_type
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._is_whole = True

    def start(self) -> bool:
        """Begins to count, unless the script has a mode of its own, with which this one could mix."""
        if _get_current_dispatch_mode() is not None:
            return False
        self.__enter__()  # type: ignore[no-untyped-call]
        self.is_on = True
        return True

    def stop(self) -> None:
        """Ends counting."""
        if self.is_on and _get_current_dispatch_mode() is self:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self.is_on = False

    def counted(self, batch_size: int, parameters: Iterable[Tensor]) -> StepOperations | None:
        """Returns what was counted; ``None`` if it was too much."""
        if not self._is_whole or not self._counts:
            return None
        operations = [
            StepOperation(Operation(name, inputs, outputs, arguments, (), (), eager), phase, times)
            for (name, inputs, outputs, arguments, eager, phase), times in self._counts.items()
        ]
        return StepOperations(batch_size, operations, sorted(tuple(p.shape) for p in parameters))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation and counts it."""
        kwargs = kwargs or {}
        if not self.is_on:
            return func(*args, **kwargs)
        leaves = tree_leaves((args, {name: value for name, value in kwargs.items() if name != "scale"}))
        given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        inputs = tuple(map(_facts, given))  # before it runs, which may change them
        result = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if all(tensor.device.type == self._device_type for tensor in (*given, *made) if tensor.dim()):
            arguments = tuple(leaf for leaf in leaves if leaf is None or isinstance(leaf, (bool, int, float)))
            key = (self._name(func), inputs, tuple(map(_facts, made)), arguments, torch.is_grad_enabled(), self.phase)
            self._is_whole = self._is_whole and len(self._counts) < MOST_KINDS
            if self._is_whole:
                self._counts[key] += 1
        return result

    def _name(self, func: Any) -> str:
        name = str(func)
        meeting = name == "aten.add.Tensor" and self.phase == "backward" and not torch.is_grad_enabled()
        return GRADIENTS_MEET if meeting else RENAMED.get(name, name)


def _facts(tensor: Tensor) -> TensorFacts:
    if tensor.layout != torch.strided:
        return TensorFacts(tuple(tensor.shape), tensor.dtype, 0, contiguous=True)
    contiguous = tensor.is_contiguous()
    channels_last = not contiguous and tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return TensorFacts(tuple(tensor.shape), tensor.dtype, 0, contiguous, channels_last)
