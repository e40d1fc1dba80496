"""Which GPU of the catalog is in this machine, told without starting CUDA."""

from __future__ import annotations

from memorymark.catalog import GpuEntry, match_gpu
from memorymark.devices import nvml
from memorymark.target import Target


def gpu_here(target: Target) -> GpuEntry | None:
    """The catalog's entry for the GPU here that a target means; ``None`` if it means none, or an unknown one."""
    if target.gpu is not None or not (target.device == "auto" or target.device.startswith("cuda")):
        return None
    index = int(target.device.partition(":")[2] or 0)
    here = [match_gpu(state.name) for state in nvml.gpus()][index : index + 1]
    return here[0] if here else None
