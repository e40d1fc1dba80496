"""The work of a convolution, as measured on an NVIDIA H200 (torch 2.11, 2026-11-15)."""

from __future__ import annotations

from math import inf, prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.memory.convolution_scratch import fourier_bytes, transforms_rows
from memorymark.prediction.timing.work import HALF, Work, half_flops, one_by_one
from memorymark.prediction.tracing.convolution import Convolution
from memorymark.prediction.tracing.operation import Operation

# Adding the bias takes a separate kernel.
BIAS_FLOPS = 250.0
# Bytes of Fourier transforms computed and multiplied per second, of images and of weights.
FOURIER_RATES = (0.17e12, 0.8e12)
# torch has its own kernels for depthwise windows up to this many places.
SMALL_WINDOW = 25


def work_of(op: Operation, gpu: GpuEntry, peak_bytes: float = inf) -> Work:
    """Returns the work of a convolution or of its backward pass in a step with this peak.

    Fourier transforms larger than the peak were not made: they did not fit.
    """
    conv = Convolution.of(op)
    image, weight, result = conv.image, conv.weight, conv.result
    is_half, passes = image.dtype in HALF, 2 if conv.backward else 1
    kind = _kind_of(conv)
    traffic_seconds = passes * (image.nbytes + result.nbytes) / gpu.bytes_per_second
    if conv.is_depthwise:  # on the plain units; the gradient of the image has as many places as the image
        seen = image.numel if conv.transposed else result.numel
        places = result.numel + image.numel if conv.backward else seen
        arithmetic_seconds = 2.0 * places * prod(weight.shape[1:]) / gpu.fp32_flops
    else:
        # A transposed convolution's weight is laid out by the image's channels, and its places are the image's.
        places = passes * (image.numel if conv.transposed else result.numel)
        # cuDNN uses TF32 unless told not to; the first layer takes as long in half precision.
        rate = half_flops(gpu, image.dtype) if is_half and kind != "stem " else gpu.tf32_flops
        arithmetic_seconds = 2.0 * places * prod(weight.shape[1:]) / rate
    if kind == "stem " and is_half:
        traffic_seconds *= 2
    extra_seconds = 0.0
    if not conv.backward and len(op.inputs) > 2:
        extra_seconds += one_by_one(result.numel, BIAS_FLOPS, gpu)
    if not conv.backward and transforms_rows(conv, gpu) and sum(fourier_bytes(conv)) <= peak_bytes:
        extra_seconds += sum(size / rate for size, rate in zip(fourier_bytes(conv), FOURIER_RATES, strict=True))
    return Work(
        f"{kind}convolution{' backward' if conv.backward else ''}",
        arithmetic_seconds,
        traffic_seconds,
        extra_seconds=extra_seconds,
    )


def _kind_of(conv: Convolution) -> str:
    if conv.is_depthwise:
        return "depthwise " if conv.window <= SMALL_WINDOW else "large depthwise "
    if conv.groups > 1:
        return "grouped "
    if conv.image.channels_last:
        return "channels-last "
    if conv.image.shape[1] < 8:
        return "stem "
    if conv.is_pointwise(8):
        return "pointwise "
    if min(conv.weight.shape[:2]) < 64:
        return "narrow "
    return "half " if conv.image.dtype in HALF else ""
