"""The time of an operation from a datasheet and nothing else: its arithmetic or its traffic, whichever takes longer.

Nothing here was fitted to a measurement. It stands for what is known of a GPU that nobody has measured.
"""

from __future__ import annotations

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing import convolution as convolution_time
from memorymark.prediction.timing import recurrent as recurrent_time
from memorymark.prediction.timing.roofline import KERNEL_GAP_SECONDS, RECURRENT
from memorymark.prediction.timing.work import HALF
from memorymark.prediction.tracing.convolution import Convolution
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, Operation

READS = ("embedding", "index", "gather")


def plain_seconds(op: Operation, gpu: GpuEntry, tf32: bool) -> float:
    """The roofline's time; recurrent layers, whose time steps wait for each other, keep their rule."""
    if op.name in RECURRENT:
        return recurrent_time.device_seconds(op, gpu)
    flops, half = arithmetic(op), any(tensor.dtype in HALF for tensor in op.inputs)
    in_tf32 = op.base_name in convolution_time.NAMES or (tf32 and op.base_name in MATRIX_PRODUCTS)
    rate = gpu.half_flops if half else gpu.tf32_flops if in_tf32 else gpu.fp32_flops
    return KERNEL_GAP_SECONDS + max(flops / rate, traffic(op) / gpu.bytes_per_second, 1e-9)


def arithmetic(op: Operation) -> float:
    """The additions and multiplications of a product, a convolution or attention; none for the rest."""
    name = op.base_name
    if name in convolution_time.NAMES:
        conv = Convolution.of(op)
        places = conv.image.numel if conv.transposed else conv.result.numel
        return 2.0 * places * conv.weight.shape[1] * conv.window * max(sum(conv.gradients), 1)
    if name in MATRIX_PRODUCTS:
        left, right = op.inputs[-2:]
        return 2.0 * left.numel * right.shape[-1]
    if "attention" in name:
        backward = "backward" in name
        query, key = op.inputs[1:3] if backward else op.inputs[:2]
        return 4.0 * query.numel * key.shape[-2] * (2.5 if backward else 1.0)
    return 0.0


def traffic(op: Operation) -> float:
    """The bytes that it reads and writes; of a table only the rows that are asked for."""
    if op.base_name in READS:
        return 2.0 * op.outputs[0].nbytes + sum(tensor.nbytes for tensor in op.inputs[1:])
    return float(sum(tensor.nbytes for tensor in (*op.inputs, *op.outputs)))
