"""The rates that a GPU reaches, of those on its datasheet.

A board's power limits how long it can keep its boost clock: an L4 with its 72 W computes at a third of its peak. Memory
that stores its error correction beside the data (GDDR with ECC) delivers less than promised. Both were fitted on
operations and trainings that others published for the GPUs named in docs/prediction.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import inf

from memorymark.catalog import GpuEntry

INLINE_ECC_SHARE = 0.83
# The energy of an operation in picojoules, everything on the board included, by compute capability: of fp32 on the CUDA
# cores and of half precision on tensor cores. TF32 takes twice as much as half precision.
PICOJOULES: dict[tuple[int, int], tuple[float, float]] = {
    (7, 0): (17.4, 3.2),
    (7, 5): (17.4, 3.5),
    (8, 0): (15.4, 1.4),
    (8, 6): (13.0, 2.4),
    (8, 9): (7.9, 1.1),
}


@cache
def reached(gpu: GpuEntry) -> GpuEntry:
    """Returns the GPU with the rates that it reaches over a whole step, but for fp32 still at the boost clock."""
    half = _limit(gpu, 1)
    return replace(
        gpu,
        # Without tensor cores for it, TF32 is plain fp32.
        tf32_flops=min(gpu.tf32_flops, half / 2) if gpu.has_bf16 else min(gpu.fp32_flops, fp32_limit(gpu)),
        half_flops=min(gpu.half_flops, half),
        bytes_per_second=gpu.bytes_per_second * (INLINE_ECC_SHARE if gpu.inline_ecc else 1.0),
    )


def fp32_limit(gpu: GpuEntry) -> float:
    """Returns the operations in fp32 per second that the board's power allows."""
    return _limit(gpu, 0)


def _limit(gpu: GpuEntry, place: int) -> float:
    picojoules = PICOJOULES.get(gpu.capability)
    if picojoules is None or gpu.power_watts is None:
        return inf
    return gpu.power_watts / (1e-12 * picojoules[place])
