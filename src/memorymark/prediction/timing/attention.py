"""The work of attention, as measured on an NVIDIA H200 (torch 2.11, 2026-11-15)."""

from __future__ import annotations

from math import prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import HALF, Work, half_flops, one_by_one
from memorymark.prediction.tracing.operation import Operation

# Scores are computed in square tiles of this size.
TILE = 128
# flash-attn's operations have the heads after the tokens.
FLASH = "_flash_attention"
# The cost of a random number for dropout, per score, in each precision and pass.
DRAW_FLOPS = {"fp32": (150.0, 250.0), "half": (94.0, 45.0)}


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Returns the work of attention or of its backward pass."""
    backward = "backward" in op.name
    query = op.inputs[1 if backward else 0]
    heads, rows, columns = _heads_and_lengths(op, backward=backward)
    is_half = query.dtype in HALF
    rate = half_flops(gpu, query.dtype) if is_half else gpu.fp32_flops
    flops = 4.0 * heads * _to_tiles(rows) * _to_tiles(columns) * query.shape[-1] * (2.5 if backward else 1.0)
    precision = "half" if is_half else "fp32"
    masked = "masked " if is_half and "efficient" in op.name else ""  # the others take no mask, or a whole one
    drawn = heads * rows * columns if _drops_out(op) else 0
    return Work(
        f"{masked}{precision} attention{' backward' if backward else ''}",
        flops / rate,
        traffic_seconds,
        extra_seconds=one_by_one(drawn, DRAW_FLOPS[precision][backward], gpu),
    )


def _heads_and_lengths(op: Operation, *, backward: bool) -> tuple[int, int, int]:
    """Returns how many heads there are in all texts, and how many queries and keys each has."""
    query, key = op.inputs[1:3] if backward else op.inputs[:2]
    if not op.base_name.startswith(FLASH):
        return prod(query.shape[:2]), query.shape[2], key.shape[2]
    if len(query.shape) == 4:
        return query.shape[0] * query.shape[2], query.shape[1], key.shape[1]
    bounds = op.inputs[6 if backward else 3]  # of texts in one row, taken as equally long
    texts = bounds.numel - 1
    return texts * query.shape[1], query.shape[0] // texts, key.shape[0] // texts


def _drops_out(op: Operation) -> bool:
    """Tells whether there is dropout: its probability is the only float argument."""
    return any(isinstance(argument, float) and argument > 0 for argument in op.arguments)


def _to_tiles(size: int) -> int:
    return -(-size // TILE) * TILE
