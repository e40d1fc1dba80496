"""The work of normalizing and of softmax, as measured on an NVIDIA H200 (torch 2.11, November 2026).

What one block of threads normalizes decides how much of a GPU works: a row (layer norm, softmax), a group of channels
of one sample (group norm) or a channel of all samples (batch norm).
"""

from __future__ import annotations

from math import prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import HALF, Work, one_by_one
from memorymark.prediction.tracing.operation import Operation

LAYER_NORMS = frozenset({"native_layer_norm", "_fused_rms_norm"})
LAYER_NORMS_BACKWARD = frozenset({"native_layer_norm_backward", "_fused_rms_norm_backward"})
GROUP_NORMS = frozenset({"native_group_norm", "native_group_norm_backward"})
BATCH_NORMS = frozenset({"native_batch_norm", "native_batch_norm_backward"})
SOFTMAXES = frozenset({"_softmax", "_log_softmax"})
# The safe softmax also looks for rows that are masked as a whole, in kernels of their own.
KINDS = {
    "_safe_softmax": "safe softmax",
    "_softmax_backward_data": "softmax backward",
    "_log_softmax_backward_data": "log softmax backward",
}
NAMES = LAYER_NORMS | LAYER_NORMS_BACKWARD | GROUP_NORMS | BATCH_NORMS | SOFTMAXES | frozenset(KINDS)
# Layer norm: the cost of each element, and of each row, as many elements as that of how many. Rows that are no whole
# words are read element by element by one block each.
NORMED_FLOPS, ROW_ELEMENTS = 147.0, 400
ODD_ROW_NANOSECONDS = 0.7
WORD = 4
# A row that is not contiguous is copied first, across the layout.
TRANSPOSED_FLOPS = 490.0
# Group norm: the nanoseconds that a block takes for each element to find its mean, alone and beside others; then each
# element is scaled in a kernel of its own. Its backward pass costs this much for each element.
ALONE_NANOSECONDS, BESIDE_NANOSECONDS = 0.45, 0.26
SCALED_FLOPS = 160.0
GROUP_BACKWARD_FLOPS = 430.0
# Softmax keeps rows of up to this many elements in registers, and reads longer ones several times.
SHORT_ROW, SHORT_ROW_FLOPS = 2048, 117.0
# Batch norm: the nanoseconds that a block takes for each element of its channel in each pass, how much longer half
# precision takes, and how much each further channel of a multiprocessor adds to the time of the first.
CHANNEL_NANOSECONDS, HALF_FACTOR, NEXT_CHANNEL = (0.55, 1.5), (1.45, 1.6), (0.7, 0.0)


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Returns the work of normalizing, or of its backward pass."""
    name = op.base_name
    if name in BATCH_NORMS:
        return _batch_norm(op, gpu, traffic_seconds)
    if name in GROUP_NORMS:
        return _group_norm(op, gpu, traffic_seconds)
    if name in LAYER_NORMS:
        return _layer_norm(op, gpu, traffic_seconds)
    if name in LAYER_NORMS_BACKWARD:
        return Work("layer norm backward", 0.0, traffic_seconds)
    return _softmax(op, gpu, traffic_seconds)


def _layer_norm(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    tensor = op.inputs[0]
    width = op.inputs[1].numel if len(op.inputs) > 1 else tensor.shape[-1]
    rows = tensor.numel // max(width, 1)
    copying = 0.0 if tensor.contiguous else one_by_one(tensor.numel, TRANSPOSED_FLOPS, gpu)
    seconds = one_by_one(rows * (width + ROW_ELEMENTS), NORMED_FLOPS, gpu)
    if width % WORD:
        seconds = max(seconds, _in_rounds(rows, gpu) * width * ODD_ROW_NANOSECONDS * 1e-9)
    return Work("layer norm", 0.0, traffic_seconds, extra_seconds=copying, least_seconds=seconds)


def _group_norm(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    if op.base_name.endswith("_backward"):
        seconds = one_by_one(op.inputs[0].numel, GROUP_BACKWARD_FLOPS, gpu)
        return Work("group norm backward", 0.0, traffic_seconds, least_seconds=seconds)
    tensor, blocks = op.inputs[0], max(op.outputs[1].numel, 1)
    in_block = tensor.numel // blocks
    seconds = 1e-9 * in_block * max(ALONE_NANOSECONDS, _in_rounds(blocks, gpu) * BESIDE_NANOSECONDS)
    return Work("group norm", 0.0, traffic_seconds, seconds + one_by_one(tensor.numel, SCALED_FLOPS, gpu))


def _softmax(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    tensor = op.inputs[0]
    if op.base_name in KINDS:
        return Work(KINDS[op.base_name], 0.0, traffic_seconds)
    if tensor.shape and tensor.shape[-1] <= SHORT_ROW:
        seconds = one_by_one(tensor.numel, SHORT_ROW_FLOPS, gpu)
        return Work("short softmax", 0.0, traffic_seconds, least_seconds=seconds)
    return Work("softmax", 0.0, traffic_seconds)


def _batch_norm(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """In the default layout one block processes each channel, so few channels leave most of the GPU idle."""
    backward = op.base_name.endswith("_backward")
    tensor = op.inputs[0]
    kind = f"batch norm{' backward' if backward else ''}"
    if tensor.channels_last or len(tensor.shape) < 3:
        return Work(f"channels-last {kind}", 0.0, traffic_seconds)
    nanoseconds = CHANNEL_NANOSECONDS[backward] * (HALF_FACTOR[backward] if tensor.dtype in HALF else 1.0)
    together = 1 + NEXT_CHANNEL[backward] * (_in_rounds(tensor.shape[1], gpu) - 1)
    in_channel = tensor.shape[0] * prod(tensor.shape[2:])
    return Work(kind, 0.0, traffic_seconds, least_seconds=1e-9 * nanoseconds * in_channel * together)


def _in_rounds(blocks: int, gpu: GpuEntry) -> int:
    """Returns how many blocks the busiest multiprocessor has."""
    return -(-blocks // gpu.multiprocessors)
