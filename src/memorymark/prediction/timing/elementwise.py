"""The work of elementwise kernels, as measured on an NVIDIA H200 (torch 2.11, 2026-11-15).

Most such kernels read and write several elements at once and are bound by memory. Those that mix types, broadcast a
smaller tensor or move a window process elements one by one.
"""

from __future__ import annotations

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import Work, one_by_one
from memorymark.prediction.tracing.operation import GRADIENTS_MEET, Operation, TensorFacts

ARITHMETIC = frozenset(
    {GRADIENTS_MEET, *"add add_ sub sub_ mul mul_ div div_ where addcmul _to_copy copy_".split()},
)
# The cost of each element: if a smaller tensor is broadcast or a type changed for one that is no narrower, if two
# tensors' types are mixed, and if a copy turns channels-last into the plain layout or back.
STRETCHED_FLOPS, MIXED_FLOPS, TURNED_FLOPS = 190.0, 260.0, 490.0
# That of each element whatever its type: of a padded tensor, and of functions that take more arithmetic than others.
ELEMENT_FLOPS = {"constant_pad_nd": 215.0, "gelu": 86.0, "gelu_backward": 119.0, "sigmoid": 71.0, "silu": 71.0}
COPIES = frozenset({"clone", "copy_", "_to_copy"})


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Returns the work of any operation that is not of a more specific kind."""
    kind = "elementwise"
    if any(not (t.contiguous or t.channels_last) for t in op.inputs):
        kind = "strided elementwise"
    return Work(kind, 0.0, traffic_seconds, least_seconds=_least_seconds(op, gpu))


def _least_seconds(op: Operation, gpu: GpuEntry) -> float:
    name, tensors = op.base_name, [t for t in op.inputs if t.numel > 1]
    if not tensors:
        return 0.0
    if name in ELEMENT_FLOPS:
        return one_by_one(max(t.numel for t in tensors), ELEMENT_FLOPS[name], gpu)
    if name not in ARITHMETIC and name not in COPIES:
        return 0.0
    result = op.outputs[0] if op.outputs else op.inputs[0]
    if name == "copy_":
        tensors = [t for t in op.inputs[1:] if t.numel > 1]  # the first is only written
    if name in COPIES and _is_turned(tensors, result):
        return one_by_one(result.numel, TURNED_FLOPS, gpu)
    if name == "clone":
        return 0.0
    if _is_mixed(tensors):
        return one_by_one(result.numel, MIXED_FLOPS, gpu)
    if any(t.numel < result.numel or _is_widened(t, result) for t in tensors):
        return one_by_one(result.numel, STRETCHED_FLOPS, gpu)
    return 0.0


def _is_mixed(tensors: list[TensorFacts]) -> bool:
    return len({t.dtype for t in tensors if t.dtype.is_floating_point}) > 1


def _is_widened(tensor: TensorFacts, result: TensorFacts) -> bool:
    """Tells whether the type changes to one that is no narrower; a mask of booleans is no matter."""
    is_number = tensor.dtype != torch.bool
    return is_number and tensor.dtype != result.dtype and tensor.dtype.itemsize <= result.dtype.itemsize


def _is_turned(tensors: list[TensorFacts], result: TensorFacts) -> bool:
    """Tells whether the elements that lie side by side in the source lie apart in the copy: a matrix, or an image."""
    if len(result.shape) == 2:
        return any(not t.contiguous for t in tensors)
    return any(t.channels_last != result.channels_last and t.contiguous != result.contiguous for t in tensors)
