"""The time of a recurrent layer: sequential time steps, their arithmetic and memory traffic, and the host.

The host starts each step's kernels one by one, so small batches wait for it. All factors were measured on an NVIDIA
H200 (torch 2.11, 2026-11-15), separately for device and host.
"""

from __future__ import annotations

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction.tracing.operation import Operation
from memorymark.prediction.tracing.recurrent import BACKWARD, Recurrent

# The seconds from one time step to the next in each pass, and the fraction left if one kernel runs all steps.
STEP_SECONDS = (11e-6, 12.5e-6)
PERSISTENT_SHARE = 0.4
# Layers in one direction run one behind the other; two directions run side by side, but layers after each other.
LAYER_BEHIND = 0.3
BOTH_DIRECTIONS = 1.2
# How many times longer than at full rate arithmetic and traffic take in each pass. The weights, which every step
# reads, are mostly found in the cache.
ARITHMETIC = (1.5, 0.2)
TRAFFIC = (2.2, 8.0)
WEIGHTS_FROM_MEMORY = 0.3
# The host's seconds for a call, for each step of a layer, and for each gate whose place it looks up: when autocast
# copies the weights, and when their gradients are made.
HOST_CALL_SECONDS = 0.35e-3
HOST_STEP_SECONDS = (15.5e-6, 16.5e-6)
HOST_GATE_SECONDS = 80e-6


def device_seconds(op: Operation, gpu: GpuEntry) -> float:
    """Returns the GPU time of a pass. Of the two operations of a backward pass, only the first runs the time steps."""
    layer, backward = Recurrent.of(op), op.name == BACKWARD
    half = layer.dtype in (torch.float16, torch.bfloat16)
    rate = gpu.half_flops if half else gpu.tf32_flops  # cuDNN uses TF32 unless told not to
    flops = 2.0 * layer.length * layer.batch * layer.matrix_elements
    states = layer.length * layer.batch * layer.hidden * layer.directions * layer.layers * (layer.cell.reserved + 1)
    weights = layer.length * layer.cell.gates * layer.hidden**2 * layer.directions * layer.layers
    read = (states + WEIGHTS_FROM_MEMORY * weights) * layer.dtype.itemsize
    seconds = ARITHMETIC[backward] * flops / rate + TRAFFIC[backward] * read / gpu.bytes_per_second
    if _is_of_weights(op):
        return seconds
    depth = BOTH_DIRECTIONS * layer.layers if layer.directions == 2 else 1 + LAYER_BEHIND * (layer.layers - 1)
    share = PERSISTENT_SHARE if layer.is_persistent(gpu, backward=backward) else 1.0
    return seconds + share * STEP_SECONDS[backward] * depth * layer.length


def host_seconds(op: Operation, gpu: GpuEntry) -> float:
    """Returns how long the host takes to start a pass."""
    layer, backward = Recurrent.of(op), op.name == BACKWARD
    looked_up = HOST_GATE_SECONDS * layer.cell.gates * layer.layers * layer.directions
    if _is_of_weights(op):
        return HOST_CALL_SECONDS + looked_up
    persistent = layer.is_persistent(gpu, backward=backward)
    steps = 0 if persistent else layer.length * layer.layers * layer.directions
    copied = looked_up if layer.dtype == torch.float16 and not backward else 0.0
    return HOST_CALL_SECONDS + copied + HOST_STEP_SECONDS[backward] * steps


def _is_of_weights(op: Operation) -> bool:
    """Tells whether it is the second half of a backward pass: its last argument asks for gradients of weights."""
    return op.name == BACKWARD and op.arguments[-1] is True
