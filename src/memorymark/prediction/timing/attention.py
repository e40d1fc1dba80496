"""The work of attention, as measured on an NVIDIA H200 (torch 2.11, November 2026)."""

from __future__ import annotations

from math import prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.work import HALF, Work, half_flops, one_by_one
from memorymark.prediction.tracing.operation import Operation

# Scores are computed in square tiles of this size.
TILE = 128
# flash-attn's operations have the heads after the tokens.
FLASH = "_flash_attention"
# It multiplies with Ampere's instructions, which reach half the rate of the newer ones. The costs are those on an H200;
# on an A100 it was published to reach 73 % of the rate in the forward and 63 % in the backward pass (arXiv 2307.08691).
HAVE_NEWER_INSTRUCTIONS = (9, 10)
AT_OLDER_RATE = 0.5
# A causal mask leaves half of the scores and some tiles for each row of tiles, in each pass.
CAUSAL = ((0.53, 2.2), (0.49, 1.1))
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
    if op.base_name.startswith(FLASH):
        return _flash(op, flops / rate * _slower(columns, op, gpu, backward=backward), traffic_seconds)
    precision = "half" if is_half else "fp32"
    masked = "masked " if is_half and "efficient" in op.name else ""  # others take none, or a full one
    drawn = heads * rows * columns if _drops_out(op) else 0
    return Work(
        f"{masked}{precision} attention{' backward' if backward else ''}",
        flops / rate,
        traffic_seconds,
        extra_seconds=one_by_one(drawn, DRAW_FLOPS[precision][backward], gpu),
    )


def _flash(op: Operation, arithmetic_seconds: float, traffic_seconds: float) -> Work:
    """The work of flash-attn's kernels, whose dropout was not timed."""
    return Work(f"flash attention{' backward' if 'backward' in op.name else ''}", arithmetic_seconds, traffic_seconds)


def _slower(columns: int, op: Operation, gpu: GpuEntry, *, backward: bool) -> float:
    """Returns how many times longer flash-attn's arithmetic takes than that of all scores would on an H200."""
    rate = 1.0 if gpu.capability[0] in HAVE_NEWER_INSTRUCTIONS else AT_OLDER_RATE
    is_causal = next((argument for argument in op.arguments if isinstance(argument, bool)), False)
    share, more = CAUSAL[backward]
    return rate * (share + more / max(_to_tiles(columns) // TILE, 2) if is_causal else 1.0)


def _heads_and_lengths(op: Operation, *, backward: bool) -> tuple[int, int, int]:
    """Returns how many heads there are in all texts, and how many queries and keys each has."""
    query, key = op.inputs[1:3] if backward else op.inputs[:2]
    if not op.base_name.startswith(FLASH):
        return prod(query.shape[:2]), query.shape[2], key.shape[2]
    if len(query.shape) == 4:
        return query.shape[0] * query.shape[2], query.shape[1], key.shape[1]
    bounds = op.inputs[6 if backward else 3]  # of texts in one row, which are assumed to be equally long
    texts = bounds.numel - 1
    return texts * query.shape[1], query.shape[0] // texts, key.shape[0] // texts


def _drops_out(op: Operation) -> bool:
    """Tells whether there is dropout: its probability is the only float argument."""
    return any(isinstance(argument, float) and argument > 0 for argument in op.arguments)


def _to_tiles(size: int) -> int:
    return -(-size // TILE) * TILE
