"""The work of an operation at a GPU's full rate, regardless of how well its kernels use the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.reached import fp32_sustained

# The instructions that an H200 issues for each byte of its memory's rate, in the unit of ``issued_flops``.
ISSUED_ON_H200 = 13.94
HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of work, and the seconds that its arithmetic and its memory traffic would take at full rate.

    ``extra_seconds`` are always added; ``least_seconds`` are the minimum.
    """

    kind: str
    arithmetic_seconds: float
    traffic_seconds: float
    extra_seconds: float = 0.0
    least_seconds: float = 0.0


def half_flops(gpu: GpuEntry, dtype: torch.dtype) -> float:
    """Returns the half-precision rate; tensor cores before Ampere support fp16 but not bf16."""
    return fp32_sustained(gpu) if dtype == torch.bfloat16 and not gpu.has_bf16 else gpu.half_flops


def one_by_one(elements: int, flops: float, gpu: GpuEntry) -> float:
    """Returns the seconds if each element costs ``flops`` operations, whatever its type."""
    return elements * flops / issued_flops(gpu)


def issued_flops(gpu: GpuEntry) -> float:
    """Returns the rate of instructions, as operations of fp32 on a GPU that has 128 cores in each multiprocessor.

    What bounds small kernels is how many instructions a multiprocessor issues, not how many cores it has.
    """
    return 256e6 * gpu.multiprocessors * gpu.boost_clock_mhz
