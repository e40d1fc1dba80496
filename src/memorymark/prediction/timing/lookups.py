"""The work of reading rows of a table and of adding up their gradients, as measured on an NVIDIA H200 (torch 2.11,
November 2026)."""

from __future__ import annotations

from math import prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import Work, one_by_one
from memorymark.prediction.tracing.operation import Operation

READS = frozenset({"embedding", "index", "gather"})
GRADIENT = "embedding_dense_backward"
NAMES = READS | {GRADIENT}
# Gradients of up to this many rows are added one after the other; more are sorted by their row first.
UNSORTED = 3072
ADDING_SECONDS = 50e-9
SORTING_SECONDS = 140e-6
# Rows of a table lie far apart: the cost of an element of each row that is written, and of one that is added to it.
WRITTEN_FLOPS, ADDED_FLOPS = 600.0, 170.0
# The gradients of one row are added up in groups of ten, whose sums wait for one another.
IN_GROUP, WAITING_SECONDS = 10, 0.3e-6


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Returns the work of a lookup, which reads as much as it returns, or of the gradient of a table."""
    if op.base_name in READS:
        result = op.outputs[0]
        read = sum(tensor.nbytes for tensor in op.inputs[1:])
        return Work("lookup", 0.0, min((2 * result.nbytes + read) / gpu.bytes_per_second, traffic_seconds))
    gradient, indices, table = op.inputs[0], op.inputs[1], op.outputs[0]
    filling = table.nbytes / gpu.bytes_per_second
    return Work("filling", 0.0, filling, extra_seconds=_adding_seconds(gradient.shape, indices.numel, table.shape, gpu))


def _adding_seconds(shape: tuple[int, ...], count: int, table: tuple[int, ...], gpu: GpuEntry) -> float:
    if count <= UNSORTED:
        return count * ADDING_SECONDS
    rows, width = min(count, table[0]), table[-1]
    groups = count / rows / IN_GROUP
    adding = one_by_one(prod(shape), ADDED_FLOPS, gpu) + one_by_one(rows * width, WRITTEN_FLOPS, gpu)
    return SORTING_SECONDS + adding + WAITING_SECONDS * groups
