"""The time of a convolution, as measured on an NVIDIA H200 (torch 2.11, cuDNN 9.19, November 2026).

cuDNN computes a convolution as a matrix product of the image's windows and the weights: one for the result, one for the
gradient of the image, one for that of the weight. It pads channels to whole blocks and cuts the product into tiles, of
which each multiprocessor computes one at a time; the last round of tiles rarely fills the GPU. Other layouts are copied
into channels-last and back, which takes most of the time where channels are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.memory.convolution_scratch import fourier_bytes, transforms_rows
from memorymark.prediction.timing import depthwise
from memorymark.prediction.timing.work import HALF, ISSUED_ON_H200, half_flops, issued_flops, one_by_one
from memorymark.prediction.tracing.convolution import Convolution
from memorymark.prediction.tracing.operation import Operation

NAMES = frozenset({"convolution", "convolution_backward"})
RESULT, IMAGE, WEIGHT = "result", "image", "weight"
# How many times longer than at full rate the arithmetic of each product takes, and its traffic. They add up.
COSTS: dict[str, dict[str, tuple[float, float]]] = {
    "fp32": {RESULT: (1.09, 3.6), IMAGE: (1.2, 3.6), WEIGHT: (1.4, 5.3)},
    "half": {RESULT: (1.65, 4.0), IMAGE: (1.65, 5.6), WEIGHT: (1.52, 5.9)},
    "channels-last": {RESULT: (1.29, 0.81), IMAGE: (1.8, 0.76), WEIGHT: (1.06, 1.64)},
    "pointwise": {RESULT: (1.07, 1.09), IMAGE: (1.05, 0.97), WEIGHT: (0.95, 0.69)},
    "grouped": {RESULT: (1.5, 10.6), IMAGE: (1.7, 5.8), WEIGHT: (8.0, 8.7)},
    "volume": {RESULT: (1.74, 4.0), IMAGE: (1.7, 7.6), WEIGHT: (4.35, 4.0)},
    "fp32 colours": {RESULT: (0.85, 2.1), IMAGE: (1.23, 3.9), WEIGHT: (4.5, 4.0)},
    "patches": {RESULT: (1.3, 3.0), IMAGE: (1.3, 3.0), WEIGHT: (5.0, 8.0)},
    "half colours": {RESULT: (1.7, 5.3), IMAGE: (1.65, 5.6), WEIGHT: (13.3, 8.7)},
}
# Of depthwise convolutions in channels-last, which cuDNN computes: by whether the window is large, then by the pass.
DEPTHWISE_COSTS = {False: ((9.5, 3.5), (40.0, 3.0)), True: ((9.5, 3.5), (114.0, 0.0))}
SMALL_WINDOW = 25
# GPUs without TF32: how many times longer the arithmetic takes than at full rate, also that of groups, and the share
# of it that is left by Winograd's transformation.
PLAIN, PLAIN_GROUPED = 1.4, 5.5
WINOGRAD, WINOGRAD_WINDOW = 0.55, 9
# How many operations of its tensor cores there are for each that an H200 issues, in fp32 and in half precision, and the
# best that its factors become where there are fewer.
FED_ON_H200 = {False: 7.39, True: 14.78}
AT_BEST, GROUPED_AT_BEST = {False: 1.2, True: 1.05}, 3.0
# Fewer channels than this are those of colours.
COLOURS = 8
# Channels are padded to whole blocks; a tile has this many places and channels.
BLOCK, TILE = 64, 128
# Half-precision groups in channels-last had narrower blocks before Hopper.
NARROW_BLOCK, HOPPER = 16, 9
# A tile waits for its operands: this long for each element of its inner dimension, in fp32 and in half precision.
WAITING_SECONDS = {False: 10e-9, True: 2.5e-9}
# The gradient of the weight adds over all places, which are shared out to idle multiprocessors in parts of this size.
SHARE = 512
# Adding the bias takes a separate kernel.
BIAS_FLOPS = 250.0
# Bytes of Fourier transforms computed and multiplied per second, of images and of weights.
FOURIER_RATES = (0.17e12, 0.8e12)


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution as matrix products: ``groups`` of ``rows`` by ``columns`` over ``depth``, all of them padded."""

    rows: float
    columns: float
    depth: float
    groups: int


def device_seconds(op: Operation, gpu: GpuEntry, peak_bytes: float = inf) -> float:
    """Returns the time of a convolution or of its backward pass in a step with this peak.

    Fourier transforms larger than the peak were not made: they did not fit.
    """
    conv = Convolution.of(op)
    of_image, of_weight = conv.gradients if any(conv.gradients) or not conv.backward else (True, True)
    asked = [RESULT] if not conv.backward else [IMAGE] * of_image + [WEIGHT] * of_weight
    traffic_seconds = (conv.image.nbytes + conv.result.nbytes) / gpu.bytes_per_second
    if conv.is_depthwise and not conv.image.channels_last:
        seconds = depthwise.device_seconds(conv, gpu, of_image=IMAGE in asked, of_weight=WEIGHT in asked)
    elif conv.is_depthwise:
        seconds = _depthwise_channels_last(conv, len(asked), traffic_seconds, gpu)
    elif conv.image.dtype not in HALF and not gpu.has_bf16:
        seconds = len(asked) * _plain_seconds(conv, traffic_seconds, gpu)
    else:
        costs = COSTS[_kind_of(conv)]
        seconds = sum(_product_seconds(conv, which, costs[which], traffic_seconds, gpu) for which in asked)
    # No kernel is faster than memory delivers its tensors.
    seconds = max(seconds, len(asked) * traffic_seconds)
    if not conv.backward and len(op.inputs) > 2:
        seconds += one_by_one(conv.result.numel, BIAS_FLOPS, gpu)
    if not conv.backward and transforms_rows(conv, gpu) and sum(fourier_bytes(conv)) <= peak_bytes:
        seconds += sum(size / rate for size, rate in zip(fourier_bytes(conv), FOURIER_RATES, strict=True))
    return seconds


def _plain_seconds(conv: Convolution, traffic_seconds: float, gpu: GpuEntry) -> float:
    """Returns the time of a pass on the CUDA cores, which need no padded channels and keep the layout."""
    flops = 2.0 * conv.result.numel * (conv.image.shape[1] // conv.groups) * conv.window
    if conv.transposed:
        flops = 2.0 * conv.image.numel * (conv.result.shape[1] // conv.groups) * conv.window
    if conv.groups > 1:
        factor = PLAIN_GROUPED
    else:
        factor = PLAIN * (WINOGRAD if conv.window == WINOGRAD_WINDOW and max(conv.strides) == 1 else 1.0)
    return factor * flops / gpu.tf32_flops + traffic_seconds


def _kind_of(conv: Convolution) -> str:
    precision = "half" if conv.image.dtype in HALF else "fp32"
    if conv.groups > 1:
        return "grouped"
    if conv.image.channels_last:
        return "channels-last"
    if conv.image.shape[1] < COLOURS:
        return "patches" if conv.is_patches else f"{precision} colours"
    if conv.is_pointwise(8):
        return "pointwise"
    return "volume" if len(conv.image.shape) == 5 else precision


def _product_seconds(
    conv: Convolution, which: str, cost: tuple[float, float], traffic_seconds: float, gpu: GpuEntry
) -> float:
    is_half = conv.image.dtype in HALF
    narrow = conv.groups > 1 and is_half and conv.image.channels_last and gpu.capability[0] < HOPPER
    product = _product(conv, which, NARROW_BLOCK if narrow else BLOCK)
    if conv.is_patches and which == RESULT:  # a matrix product of whole patches
        product = replace(product, depth=_padded(conv.image.shape[1] * conv.window, BLOCK))
    tiles = ceil(product.rows / TILE) * ceil(product.columns / TILE) * product.groups
    shares = 1
    if which == WEIGHT and tiles < gpu.multiprocessors:
        shares = min(max(int(product.depth // SHARE), 1), max(gpu.multiprocessors // tiles, 1))
    rounds = -(-tiles * shares // gpu.multiprocessors)
    idle_factor = rounds * gpu.multiprocessors / (tiles * shares)
    flops = 2.0 * product.rows * product.columns * product.depth * product.groups * idle_factor
    # cuDNN uses TF32 unless told not to.
    arithmetic_seconds = flops / (half_flops(gpu, conv.image.dtype) if is_half else gpu.tf32_flops)
    arithmetic, traffic = _elsewhere(cost, is_half, gpu, grouped=conv.groups > 1)
    waiting = WAITING_SECONDS[is_half] * product.depth / shares
    return arithmetic * arithmetic_seconds + traffic * traffic_seconds + waiting


def _elsewhere(cost: tuple[float, float], is_half: bool, gpu: GpuEntry, *, grouped: bool) -> tuple[float, float]:
    """Returns what the factors of an H200 are on a GPU that issues more instructions for what its tensor cores do.

    Those of groups, which hardly use tensor cores, are also large for their traffic.
    """
    arithmetic, traffic = cost
    issued = issued_flops(gpu)
    fed = (gpu.half_flops if is_half else gpu.tf32_flops) / issued / FED_ON_H200[is_half]
    arithmetic = max(min(arithmetic, AT_BEST[is_half]), arithmetic * min(fed, 1.0))
    if grouped:
        hidden = ISSUED_ON_H200 * gpu.bytes_per_second / issued
        traffic = max(min(traffic, GROUPED_AT_BEST), traffic * min(hidden, 1.0))
    return arithmetic, traffic


def _product(conv: Convolution, which: str, block: int) -> Product:
    # A transposed convolution computes what is the gradient of the image of another one, and the other way round.
    from_windows, spread = (conv.image, conv.result) if conv.transposed else (conv.result, conv.image)
    places, spread_places = (tensor.shape[0] * prod(tensor.shape[2:]) for tensor in (from_windows, spread))
    channels, spread_channels = (tensor.shape[1] // conv.groups for tensor in (from_windows, spread))
    if which == WEIGHT:
        return Product(_padded(channels, block), _padded(spread_channels * conv.window, block), places, conv.groups)
    if (which == RESULT) != conv.transposed:
        return Product(
            _in_tiles(places), _padded(channels, block), _padded(spread_channels, block) * conv.window, conv.groups
        )
    window = max(conv.window / prod(conv.strides), 1.0)
    return Product(
        _in_tiles(spread_places), _padded(spread_channels, block), _padded(channels, block) * window, conv.groups
    )


def _depthwise_channels_last(conv: Convolution, passes: int, traffic_seconds: float, gpu: GpuEntry) -> float:
    places = conv.result.numel + (conv.image.numel if passes > 1 else 0)
    arithmetic_seconds = 2.0 * places * conv.window / issued_flops(gpu)
    arithmetic, traffic = DEPTHWISE_COSTS[conv.window > SMALL_WINDOW][conv.backward]
    return arithmetic * arithmetic_seconds + traffic * passes * traffic_seconds


def _padded(channels: int, block: int) -> int:
    return -(-channels // block) * block


def _in_tiles(places: int) -> int:
    return -(-places // TILE) * TILE
