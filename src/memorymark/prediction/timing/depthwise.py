"""The time of depthwise convolutions, as measured on an NVIDIA H200 (torch 2.11, November 2026).

torch's own kernels use no tensor cores. A thread computes one place of the result, or of the gradient of the image, and
walks through the window; a block adds up the gradient of one weight over all places of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import one_by_one
from memorymark.prediction.tracing.convolution import Convolution


@dataclass(frozen=True, slots=True)
class Cost:
    """What a thread costs, and each place of its window."""

    thread_flops: float
    tap_flops: float

    def seconds(self, threads: int, window: int, gpu: GpuEntry) -> float:
        """Returns the time of so many threads with windows of so many places."""
        return one_by_one(threads, self.thread_flops + self.tap_flops * window, gpu)


# By the dimensions of the image; in two, torch has kernels made for the windows below.
FORWARD = {1: Cost(615.0, 24.0), 2: Cost(470.0, 43.0), 3: Cost(670.0, 40.0)}
MADE_FOR, MADE_FORWARD = frozenset({(1, 1), (3, 3), (5, 5)}), Cost(370.0, 31.0)
BACKWARD = {1: Cost(600.0, 40.0), 2: Cost(500.0, 45.0), 3: Cost(670.0, 134.0)}
# With a stride most places of the window have no counterpart, and threads side by side part ways.
STRIDED = 1.3
# The nanoseconds that a block takes for each place to add up the gradient of its weight: alone, and of a multiprocessor
# that is full of blocks.
ALONE_NANOSECONDS, FULL_NANOSECONDS = 0.64, 0.23


def device_seconds(conv: Convolution, gpu: GpuEntry, *, of_image: bool, of_weight: bool) -> float:
    """Returns the time of a depthwise convolution, or of the asked gradients."""
    seconds = 0.0 if conv.backward else _places_seconds(conv, gpu, spreads=conv.transposed)
    if of_image:
        seconds += _places_seconds(conv, gpu, spreads=not conv.transposed)
    if of_weight:
        blocks, places = conv.weight.shape[0] * conv.window, conv.places
        in_multiprocessor = FULL_NANOSECONDS * blocks / gpu.multiprocessors
        seconds += 1e-9 * places * max(ALONE_NANOSECONDS, in_multiprocessor)
    return seconds


def _places_seconds(conv: Convolution, gpu: GpuEntry, *, spreads: bool) -> float:
    """Returns the time to compute a tensor of places from their windows, or to spread places over their windows."""
    tensor = conv.image if conv.backward else conv.result
    dims = len(conv.image.shape) - 2
    if spreads:
        strided = STRIDED if max(conv.strides) > 1 else 1.0
        return strided * BACKWARD[dims].seconds(tensor.numel, conv.window, gpu)
    cost = MADE_FORWARD if conv.weight.shape[2:] in MADE_FOR else FORWARD[dims]
    return cost.seconds(tensor.numel, conv.window, gpu)
