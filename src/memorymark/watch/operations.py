"""The operations of one step of a user's training, as the prediction of time needs them. With a JSON form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from memorymark.devices.allocations import Phase

if TYPE_CHECKING:  # who only waits for a script needs no torch
    from memorymark.prediction.tracing.operation import Operation, TensorFacts


class StepOperation(NamedTuple):
    """An operation, the phase that it runs in, and how often it runs there."""

    operation: Operation
    phase: Phase
    times: int


@dataclass(frozen=True)
class StepOperations:
    """The operations of one step at this batch size, equal ones counted, and the shape of each trained parameter."""

    batch_size: int
    operations: list[StepOperation]
    parameters: list[tuple[int, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Returns them as JSON types."""
        rows = [
            [op.name, _written(op.inputs), _written(op.outputs), list(op.arguments), op.eager, phase, times]
            for op, phase, times in self.operations
        ]
        return {"batch_size": self.batch_size, "operations": rows, "parameters": [list(s) for s in self.parameters]}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> StepOperations:
        """Reads what ``to_dict`` returned."""
        from memorymark.prediction.tracing.operation import Operation

        found = [
            StepOperation(Operation(name, _read(inputs), _read(outputs), tuple(arguments), (), (), eager), phase, times)
            for name, inputs, outputs, arguments, eager, phase, times in document["operations"]
        ]
        return cls(document["batch_size"], found, [tuple(shape) for shape in document["parameters"]])


def _written(tensors: Iterable[TensorFacts]) -> list[list[Any]]:
    return [[list(t.shape), str(t.dtype).removeprefix("torch."), t.contiguous, t.channels_last] for t in tensors]


def _read(tensors: Iterable[list[Any]]) -> tuple[TensorFacts, ...]:
    import torch

    from memorymark.prediction.tracing.operation import TensorFacts

    return tuple(
        TensorFacts(tuple(shape), getattr(torch, dtype), 0, contiguous, channels_last)
        for shape, dtype, contiguous, channels_last in tensors
    )
