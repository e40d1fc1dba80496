"""Traced operations as JSON types, and back: what a profile keeps of what it timed."""

from __future__ import annotations

from typing import Any

import torch

from memorymark.prediction.tracing.operation import Operation, TensorFacts


def write_operation(op: Operation) -> list[Any]:
    """Returns what decides how long an operation takes."""
    inputs, outputs = ([_facts(tensor) for tensor in tensors] for tensors in (op.inputs, op.outputs))
    return [op.name, inputs, outputs, list(op.arguments)]


def read_operation(document: list[Any]) -> Operation:
    """Reads what ``write_operation`` wrote."""
    name, inputs, outputs, arguments = document
    read, made = (tuple(_tensor(*facts) for facts in tensors) for tensors in (inputs, outputs))
    return Operation(name, read, made, tuple(arguments), (), ())


def _facts(tensor: TensorFacts) -> list[Any]:
    return [list(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.contiguous, tensor.channels_last]


def _tensor(shape: list[int], dtype: str, contiguous: bool, channels_last: bool) -> TensorFacts:
    found = getattr(torch, dtype)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{dtype} is no type of a tensor")
    return TensorFacts(tuple(shape), found, 0, contiguous, channels_last)
