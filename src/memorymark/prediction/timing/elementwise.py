"""The work of elementwise kernels, as measured on an NVIDIA H200 (torch 2.11, 2026-11-15).

Most such kernels read and write several elements at once and are bound by memory. Those that mix types, broadcast a
smaller tensor or move a window process elements one by one.
"""

from __future__ import annotations

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import Work, one_by_one
from memorymark.prediction.tracing.operation import GRADIENTS_MEET, Operation, TensorFacts

ARITHMETIC = frozenset(
    {GRADIENTS_MEET, *"add add_ sub sub_ mul mul_ div div_ where addcmul _to_copy copy_".split()},
)
# The cost of each element: if a smaller tensor is broadcast or a type widened, if two tensors' types are mixed, of the
# image that a window moves over, and of a padded tensor.
STRETCHED_FLOPS, MIXED_FLOPS = 190.0, 260.0
WINDOW_FLOPS = {
    "max_pool2d_with_indices": 215.0,
    "max_pool2d_with_indices_backward": 700.0,
    "constant_pad_nd": 215.0,
}


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
    if name in WINDOW_FLOPS:
        return one_by_one(max(t.numel for t in tensors), WINDOW_FLOPS[name], gpu)
    if name not in ARITHMETIC:
        return 0.0
    result = op.outputs[0] if op.outputs else op.inputs[0]
    if name == "copy_":
        tensors = [t for t in op.inputs[1:] if t.numel > 1]  # the first is only written
    if _is_mixed(tensors):
        return one_by_one(result.numel, MIXED_FLOPS, gpu)
    if any(t.numel < result.numel or t.dtype.itemsize < result.dtype.itemsize for t in tensors):
        return one_by_one(result.numel, STRETCHED_FLOPS, gpu)
    return 0.0


def _is_mixed(tensors: list[TensorFacts]) -> bool:
    return len({t.dtype for t in tensors if t.dtype.is_floating_point}) > 1
