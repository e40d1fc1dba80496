"""The work of updating all parameters at once, as measured on an NVIDIA H200 (torch 2.11, 2026-11-19)."""

from __future__ import annotations

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import Work, one_by_one
from memorymark.prediction.tracing.operation import Operation

PREFIXES = ("_foreach", "_fused_adam", "_fused_sgd", "_amp_foreach")
# How many lists of tensors an operation reads, and how many of them a fused optimizer writes; other operations write
# one. Those not named here read one list, or two with this overload.
LISTS = {
    "_foreach_addcmul": 3,
    "_foreach_addcdiv": 3,
    "_foreach_lerp": 2,
    "_fused_adam": 4,
    "_fused_adamw": 4,
    "_fused_sgd": 3,
}
WRITTEN = {"_fused_adam": 3, "_fused_adamw": 3, "_fused_sgd": 2}
OF_TWO_LISTS = "List"
# The cost of each parameter, whatever its type.
PARAMETER_FLOPS, FUSED_PARAMETER_FLOPS = 220.0, 650.0


def work_of(op: Operation, gpu: GpuEntry) -> Work:
    """Returns the work of one step of an optimizer over lists of tensors."""
    name = op.base_name.removesuffix("_")
    lists = LISTS.get(name, 2 if op.name.endswith(f".{OF_TWO_LISTS}") else 1)
    read, parameters = sum(t.nbytes for t in op.inputs), sum(t.numel for t in op.inputs) / lists
    written = sum(t.nbytes for t in op.outputs) or read * WRITTEN.get(name, 1) / lists
    flops = FUSED_PARAMETER_FLOPS if name.startswith("_fused") else PARAMETER_FLOPS
    seconds = one_by_one(round(parameters), flops, gpu)
    return Work("optimizer", 0.0, (read + written) / gpu.bytes_per_second, least_seconds=seconds)
