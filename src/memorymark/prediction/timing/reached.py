"""The rates that a GPU reaches, of those on its datasheet.

A board's power limits how long it can keep its boost clock: an L4 with its 72 W computes at a third of its peak. Memory
that stores its error correction beside the data (GDDR with ECC) delivers less than promised. Both were fitted on
operations and trainings that others published for the GPUs named in docs/prediction.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from memorymark.catalog import GpuEntry

INLINE_ECC_SHARE = 0.81
# HBM2 and HBM2e of an A100 reach a little less of their rate than later ones.
MEMORY_SHARE = {(8, 0): 0.95}
# The energy of an operation at the full clock in picojoules, everything on the board included, by compute capability:
# of fp32 on the CUDA cores and of half precision on tensor cores. TF32 takes twice as much as half precision. A lower
# clock needs a lower voltage, and so less energy for each operation.
PICOJOULES: dict[tuple[int, int], tuple[float, float]] = {
    (7, 0): (17.4, 3.85),
    (7, 5): (24.0, 4.7),
    (8, 0): (16.6, 1.45),
    (8, 6): (14.7, 2.55),
    (8, 9): (13.5, 1.45),
}
ENERGY_WITH_CLOCK = 0.44


@cache
def reached(gpu: GpuEntry) -> GpuEntry:
    """Returns the GPU with the rates that it reaches over a whole step, but for fp32 still at the boost clock."""
    memory = INLINE_ECC_SHARE if gpu.inline_ecc else MEMORY_SHARE.get(gpu.capability, 1.0)
    return replace(
        gpu,
        # Without tensor cores for it, TF32 is plain fp32.
        tf32_flops=_sustained(gpu.tf32_flops, 2, gpu) if gpu.has_bf16 else fp32_sustained(gpu),
        half_flops=_sustained(gpu.half_flops, 1, gpu),
        bytes_per_second=gpu.bytes_per_second * memory,
    )


def fp32_sustained(gpu: GpuEntry) -> float:
    """Returns the operations in fp32 per second that the CUDA cores do at the clock that the board's power allows."""
    return _sustained(gpu.fp32_flops, 0, gpu)


def _sustained(peak: float, tensor_cores: int, gpu: GpuEntry) -> float:
    """Returns what is left of a peak rate. ``tensor_cores`` is 0 for CUDA cores, 1 for half precision, 2 for TF32."""
    energies = PICOJOULES.get(gpu.capability)
    if energies is None or gpu.power_watts is None:
        return peak
    picojoules = tensor_cores * energies[1] if tensor_cores else energies[0]
    needed_watts = 1e-12 * picojoules * peak
    return float(peak * min(gpu.power_watts / needed_watts, 1.0) ** (1 / (1 + ENERGY_WITH_CLOCK)))
