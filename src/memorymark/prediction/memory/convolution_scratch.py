"""The hidden allocations of cuDNN's convolutions, as seen on an NVIDIA H200 (torch 2.11, cuDNN 9.19, 2026-11-15).

Most convolutions copy their tensors into the layout that tensor cores want; some work on transforms of them. If memory
is too small for the first choice, another algorithm without scratch space is used.
"""

from __future__ import annotations

from math import prod

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction.memory.scratch_space import NOTHING, PARAMETER_BYTES, Scratch, ceil_div, contiguous_copies
from memorymark.prediction.tracing.convolution import Convolution
from memorymark.prediction.tracing.operation import Operation, TensorFacts
from memorymark.units import KIB, MIB

# Winograd's algorithm turns each 4 x 4 places, and each 3 x 3 weights, into 6 x 6 numbers. cuDNN chooses it for results
# of up to this many places, fewer with more channels.
WINOGRAD_TILE, WINOGRAD_NUMBERS = 4, 36
WINOGRAD_PLACES = ((64, 32768), (256, 8192), (512, 1600))
# Fourier transforms have squares with this side, even for a row, and half of their columns are enough.
FOURIER_SIDE = 256
FOURIER_BYTES = FOURIER_SIDE * (FOURIER_SIDE // 2 + 1) * 8
FOURIER_PLACES = range(4000, 16000)
MOST_ELEMENTS = 2**31 - 1


def forward_scratch(op: Operation, gpu: GpuEntry) -> Scratch:
    """Returns the scratch space of a convolution."""
    conv = Convolution.of(op)
    image, weight = conv.image, conv.weight
    if image.channels_last:
        copies_weight = not (weight.channels_last or conv.window == 1 or conv.is_depthwise)
        return Scratch((weight.nbytes,), optional=True) if copies_weight else NOTHING
    copies = contiguous_copies((image,))
    if transforms_rows(conv, gpu):
        return Scratch((sum(fourier_bytes(conv)),), copies, optional=True)
    if conv.groups > 1 or conv.is_pointwise(4) or _works_on_plain_layout(conv):
        return Scratch(copies=copies)
    return Scratch((_in_other_layout(conv),), copies, optional=True)


def backward_scratch(op: Operation, gpu: GpuEntry) -> Scratch:
    """Returns the scratch space of a convolution's backward pass."""
    conv = Convolution.of(op)
    image, weight, gradient = conv.image, conv.weight, conv.result
    if conv.is_depthwise:
        return NOTHING if image.contiguous else Scratch((gradient.nbytes + image.nbytes,), optional=True)
    copies: tuple[int, ...] = ()
    if image.channels_last and gradient.channels_last:
        for_image = for_weight = weight.nbytes
    else:
        copies = contiguous_copies((gradient, image))
        if _works_on_plain_layout(conv):
            return Scratch(copies=copies)
        layout = _in_other_layout(conv)
        for_image, for_weight = layout, layout + _partial_weights(weight)
        if conv.is_pointwise(4):
            for_image = PARAMETER_BYTES
        if conv.is_pointwise(16 // image.dtype.itemsize):
            over_images = min(image.shape[0], 64) * weight.numel * 4
            for_weight = over_images + (0 if image.dtype == torch.float32 else PARAMETER_BYTES)
        elif _transforms_tiles(conv, gpu):
            for_weight = _winograd_bytes(conv)
    made = tuple(size for size, is_made in zip((for_image, for_weight), conv.gradients, strict=True) if is_made)
    return Scratch(made, copies, each_result=True, optional=True)


def transforms_rows(conv: Convolution, gpu: GpuEntry) -> bool:
    """Tells whether cuDNN multiplies Fourier transforms, as it does for wav2vec2's positions at some batch sizes.

    Seen at 48 to 129 samples of 99 places (not at 32 nor at 192) and at 128 of 49, with windows of 128 places and
    groups of 48 channels in fp32; not with groups of 64, nor where the padded row is longer than the transform.
    """
    if not _may_transform(conv, gpu) or len(conv.strides) != 1 or conv.groups == 1 or conv.is_depthwise:
        return False
    row = conv.image.shape[2] + 2 * conv.padding[0]
    is_long = conv.window >= FOURIER_SIDE // 2 and FOURIER_SIDE // 2 < row <= FOURIER_SIDE
    return is_long and conv.weight.shape[1] < 64 and conv.places in FOURIER_PLACES


def fourier_bytes(conv: Convolution) -> tuple[int, int]:
    """Returns the bytes of the Fourier transforms of the image and of the weight."""
    return prod(conv.image.shape[:2]) * FOURIER_BYTES, prod(conv.weight.shape[:2]) * FOURIER_BYTES


def _transforms_tiles(conv: Convolution, gpu: GpuEntry) -> bool:
    """Tells whether cuDNN uses Winograd's algorithm for the gradient of the weight."""
    channels, channels_in = conv.weight.shape[:2]
    if not _may_transform(conv, gpu) or conv.weight.shape[2:] != (3, 3) or conv.groups > 1:
        return False
    most = next((places for below, places in WINOGRAD_PLACES if channels < below), 0)
    return max(channels, channels_in) >= 64 and conv.places <= most


def _may_transform(conv: Convolution, gpu: GpuEntry) -> bool:
    """Tells whether transforms are possible: they were seen on Hopper in fp32, without stride or dilation."""
    is_dense = set(conv.strides) == set(conv.dilation) == {1} and not conv.transposed
    return is_dense and conv.image.dtype == torch.float32 and gpu.capability == (9, 0)


def _winograd_bytes(conv: Convolution) -> int:
    channels, channels_in = conv.weight.shape[:2]
    height, width = (ceil_div(side, WINOGRAD_TILE) for side in conv.result.shape[2:])
    tiles = conv.result.shape[0] * height * width
    return 4 * WINOGRAD_NUMBERS * (tiles * (channels + channels_in) + channels * channels_in)


def _partial_weights(weight: TensorFacts) -> int:
    """Returns the bytes of the weight's fp32 gradients over parts of the images, before they are summed.

    cuDNN chooses the number of parts; this is about its choice for most recorded convolutions.
    """
    size = max(4 * weight.numel, 1)
    if weight.dtype != torch.float32:
        parts = 9 * MIB // 4 // size
        return parts * size + 512 if parts > 1 else 0
    if size > 8 * MIB:
        return 8 * MIB
    parts = 8 * MIB // size
    return size * (parts if size < 64 * KIB else min(parts, 14)) + 512


def _in_other_layout(conv: Convolution) -> int:
    """Returns the bytes of all tensors copied to channels-last; a window of one place is the same in both layouts.

    A batch with more elements than 32 bits can count is convolved in parts, one after the other.
    """
    samples = max(conv.image.shape[0], 1)
    in_part = min(samples, max(MOST_ELEMENTS * samples // max(_elements(conv), 1), 1))
    weight_bytes = _padded(conv.weight) if conv.window > 1 else 0
    return (_padded(conv.image) + _padded(conv.result)) // samples * in_part + weight_bytes + PARAMETER_BYTES


def _works_on_plain_layout(conv: Convolution) -> bool:
    """Tells whether no copies are made: for few channels and a small window in fp32, or huge batches in half."""
    if conv.image.dtype == torch.float32:
        return conv.image.shape[1] < 4 and conv.window < 16
    return _elements(conv) > MOST_ELEMENTS


def _elements(conv: Convolution) -> int:
    return max(conv.image.numel, conv.result.numel)


def _padded(tensor: TensorFacts) -> int:
    """Returns the bytes of a channels-last copy, padded as tensor cores want it."""
    multiple = 16 // tensor.dtype.itemsize
    channels = ceil_div(tensor.shape[1], multiple) * multiple
    return tensor.nbytes // max(tensor.shape[1], 1) * channels
