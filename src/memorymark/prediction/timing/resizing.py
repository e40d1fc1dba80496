"""The work of resizing images and of pooling them, as measured on an NVIDIA H200 (torch 2.11, 2026-11-19).

Interpolation between places gives one thread to each place of an image and has it walk through all channels of all
samples. Small images with many channels leave most of the GPU idle, so their time follows from the walk, not from the
bytes. The backward passes add each gradient atomically to the places it came from.
"""

from __future__ import annotations

from math import prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import HALF, Work, one_by_one
from memorymark.prediction.tracing.operation import Operation

# How many places of the image each place of the result is made of.
NEIGHBOURS = {
    "upsample_linear1d": 2,
    "upsample_bilinear2d": 4,
    "upsample_trilinear3d": 8,
    "upsample_bicubic2d": 16,
}
BACKWARD = "_backward"
BLOCK = 1024
# A walk takes at least this long for each channel of a sample, whose values it waits for; a multiprocessor full of
# threads takes longer: this much for each value read.
STEP_SECONDS = 0.25e-6
READ_FLOPS = 19.0
# Half precision converts the result, which is noticed where few values are read.
HALF_FLOPS, FEW = 75.0, 8
# The cost of an atomic addition, in each precision: half precision has none for a single number and retries.
ADDITION_FLOPS = {"fp32": 145.0, "half": 350.0}
# In the backward pass of bicubic interpolation the threads walk as well, and neighbours add to the same places.
ADDING_STEP_SECONDS = {"fp32": 0.85e-6, "half": 27e-6}
ADDING_PLACE_FLOPS = 1500.0
# The costs of each element: of the larger tensor, or of each place of a window for average pooling.
PER_ELEMENT = {
    "upsample_nearest1d": 200.0,
    "upsample_nearest2d": 200.0,
    "upsample_nearest3d": 200.0,
    "upsample_nearest1d_backward": 150.0,
    "upsample_nearest2d_backward": 150.0,
    "upsample_nearest3d_backward": 150.0,
    "avg_pool2d": 205.0,
    "avg_pool3d": 205.0,
    "avg_pool2d_backward": 1200.0,
    "avg_pool3d_backward": 1200.0,
    "max_pool2d_with_indices": 215.0,
    "max_pool2d_with_indices_backward": 700.0,
    "max_pool3d_with_indices": 215.0,
    "max_pool3d_with_indices_backward": 700.0,
    "pixel_shuffle": 210.0,
    "pixel_unshuffle": 210.0,
}
# Adaptive pooling gives a block to each channel of a sample, few of whose threads have a place of the result. Each of
# these reads its window value by value, which takes longer if the GPU is full; so many blocks fill a multiprocessor.
POOLS = frozenset({"_adaptive_avg_pool2d", "_adaptive_avg_pool3d"})
POOLS_BACKWARD = frozenset(name + BACKWARD for name in POOLS)
POOL_START_SECONDS, POOL_READ_SECONDS, POOL_CROWDED = 2e-6, 20e-9, 1.3
POOL_BLOCKS = 8
POOL_BACKWARD_FLOPS = {"fp32": 930.0, "half": 2400.0}
INTERPOLATIONS = frozenset(name + end for name in NEIGHBOURS for end in ("", BACKWARD))
NAMES = POOLS | POOLS_BACKWARD | INTERPOLATIONS | frozenset(PER_ELEMENT)


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Returns the work of resizing or pooling, or of its backward pass."""
    name = op.base_name
    if name in PER_ELEMENT:
        elements = max(tensor.numel for tensor in (*op.inputs, *op.outputs))
        seconds = one_by_one(elements, PER_ELEMENT[name], gpu)
    elif name in POOLS:
        seconds = _pooling_seconds(op, gpu)
    elif name in POOLS_BACKWARD:
        seconds = one_by_one(op.outputs[0].numel, POOL_BACKWARD_FLOPS[_precision(op)], gpu)
    elif name.endswith(BACKWARD):
        seconds = _adding_seconds(op, gpu, NEIGHBOURS[name.removesuffix(BACKWARD)])
    else:
        seconds = _interpolating_seconds(op, gpu, NEIGHBOURS[name])
    return Work("elementwise", 0.0, traffic_seconds, least_seconds=seconds)


def _interpolating_seconds(op: Operation, gpu: GpuEntry, neighbours: int) -> float:
    image = op.outputs[0]
    flops = READ_FLOPS * neighbours + (HALF_FLOPS if image.dtype in HALF and neighbours <= FEW else 0.0)
    if image.channels_last:  # its kernel has a thread for each element
        return one_by_one(image.numel, flops, gpu)
    return _walking_seconds(image.shape, STEP_SECONDS, flops, gpu)


def _adding_seconds(op: Operation, gpu: GpuEntry, neighbours: int) -> float:
    gradient, precision = op.inputs[0], _precision(op)
    seconds = one_by_one(neighbours * gradient.numel, ADDITION_FLOPS[precision], gpu)
    if op.base_name != "upsample_bicubic2d_backward":
        return seconds
    return max(seconds, _walking_seconds(gradient.shape, ADDING_STEP_SECONDS[precision], ADDING_PLACE_FLOPS, gpu))


def _walking_seconds(shape: tuple[int, ...], step_seconds: float, flops: float, gpu: GpuEntry) -> float:
    """Returns the time of threads that walk through all channels, each with one place of an image of this shape."""
    places = prod(shape[2:])
    rounds = -(-places // (BLOCK * gpu.multiprocessors))
    in_round = min(places, rounds * BLOCK)  # the places of the busiest multiprocessor
    return prod(shape[:2]) * max(step_seconds, one_by_one(in_round * gpu.multiprocessors, flops, gpu))


def _pooling_seconds(op: Operation, gpu: GpuEntry) -> float:
    image, result = op.inputs[0], op.outputs[0]
    blocks = prod(image.shape[:2])
    rounds = blocks / (gpu.multiprocessors * POOL_BLOCKS)
    window = image.numel / max(result.numel, 1)
    reading = window * POOL_READ_SECONDS * (1 + POOL_CROWDED * min(rounds, 1.0))
    return max(rounds, 1.0) * (POOL_START_SECONDS + reading)


def _precision(op: Operation) -> str:
    return "half" if op.inputs[0].dtype in HALF else "fp32"
