"""Which operations are alike, so that what was timed of one says something about another."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing import convolution as convolution_time
from memorymark.prediction.timing import resizing as resizing_time
from memorymark.prediction.timing.roofline import RECURRENT, kind_of
from memorymark.prediction.timing.work import HALF
from memorymark.prediction.tracing.convolution import Convolution
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, Operation

COLOURS = 8


@dataclass(frozen=True)
class Traits:
    """What decides how far a predicted time may be off.

    ``family`` is the widest group of operations, ``kind`` a part of it and ``sort`` a part of that. ``size`` is the
    logarithm of the predicted seconds, ``intensity`` that of the arithmetic for each byte.
    """

    family: str
    kind: str
    sort: str
    size: float
    intensity: float


def traits_of(op: Operation, gpu: GpuEntry, seconds: float, *, tf32: bool) -> Traits:
    """Returns the traits of an operation that is predicted to take so long."""
    half = any(tensor.dtype in HALF for tensor in op.inputs)
    kind = kind_of(op, gpu)
    precision = "half" if half else "TF32" if tf32 and op.base_name in MATRIX_PRODUCTS else "fp32"
    traffic = sum(tensor.nbytes for tensor in (*op.inputs, *op.outputs))
    size = log(max(seconds, 1e-9))
    if op.name in RECURRENT:
        return Traits("recurrent", kind, f"{kind} {op.base_name} {precision}", size, 0.0)
    if op.base_name in convolution_time.NAMES:
        conv = Convolution.of(op)
        return Traits(*_of_convolution(conv, precision), size, _intensity(_taps(conv), traffic))
    if op.base_name in MATRIX_PRODUCTS:
        kind = kind.replace("fp32", precision)
        several = "several " if op.base_name in ("bmm", "baddbmm") else ""
        left, right = op.inputs[-2:]
        return Traits(
            "product", kind, f"{several}{kind}", size, _intensity(2.0 * left.numel * right.shape[-1], traffic)
        )
    if "attention" in kind:
        query = op.inputs[1 if "backward" in op.name else 0]
        keys = op.inputs[2 if "backward" in op.name else 1].shape[-2]
        return Traits("attention", kind, f"{kind} {precision}", size, _intensity(4.0 * query.numel * keys, traffic))
    family, kind = _of_memory(op, kind)
    return Traits(family, kind, f"{kind} {op.base_name} {precision}", size, 0.0)


def _of_memory(op: Operation, kind: str) -> tuple[str, str]:
    """Returns the family and the kind of an operation that memory limits."""
    if "norm" in op.base_name or "softmax" in op.base_name:
        return "norm", kind
    return "memory", "resizing" if op.base_name in resizing_time.NAMES else kind


def _of_convolution(conv: Convolution, precision: str) -> tuple[str, str, str]:
    if conv.is_depthwise:
        what = "depthwise"
    elif conv.groups > 1:
        what = "grouped"
    elif conv.image.shape[1] < COLOURS:
        what = "colours"
    else:
        what = "pointwise" if conv.is_pointwise(COLOURS) else "dense"
    layout = "channels-last " if conv.image.channels_last else ""
    kind = f"{layout}{what} convolution {precision}"
    turned, backward = ("transposed " if conv.transposed else ""), (" backward" if conv.backward else "")
    family = "depthwise convolution" if conv.is_depthwise else "convolution"
    return family, kind, f"{turned}{len(conv.image.shape) - 2}-d {kind}{backward}"


def _taps(conv: Convolution) -> float:
    """Returns the arithmetic of a convolution, once for each gradient."""
    places = conv.image.numel if conv.transposed else conv.result.numel
    return 2.0 * places * conv.weight.shape[1] * conv.window * max(sum(conv.gradients), 1)


def _intensity(flops: float, traffic: float) -> float:
    return log(max(flops, 1.0) / max(traffic, 1.0))
