"""The work of attention, as measured on an NVIDIA H200 (torch 2.11, November 2026)."""

from __future__ import annotations

from math import prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.reached import fp32_sustained
from memorymark.prediction.timing.work import HALF, Work, half_flops
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
# The other kernels skip the tiles that a causal mask leaves out. In half precision's backward pass this share of the
# time remains whatever the mask.
SKIPPED_FOR_NOTHING = {"fp32": (0.0, 0.0), "half": (0.0, 0.4)}
# How many choices are made before that of a causal mask: whether to keep sums, or which gradients are wanted.
CHOICES_BEFORE = {
    "_scaled_dot_product_cudnn_attention": 1,
    "_scaled_dot_product_efficient_attention": 1,
    "_scaled_dot_product_efficient_attention_backward": 4,
}
# cuDNN pads heads to a multiple of this many elements; a kernel in fp32 has smaller tiles.
HEAD, FP32_TILE = 64, 64
# The cost of the exponential of each score in fp32, where the forward pass has little else to do.
SCORE_FLOPS = 310.0
# The cost of a random number for dropout, per score, in each precision and pass.
DRAW_FLOPS = {"fp32": (150.0, 250.0), "half": (94.0, 45.0)}


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Returns the work of attention or of its backward pass."""
    backward = "backward" in op.name
    query = op.inputs[1 if backward else 0]
    heads, rows, columns = _heads_and_lengths(op, backward=backward)
    is_half = query.dtype in HALF
    rate = half_flops(gpu, query.dtype) if is_half else fp32_sustained(gpu)
    tile = TILE if is_half or op.base_name.startswith(FLASH) else FP32_TILE
    scores = heads * _to_tiles(rows, tile) * _to_tiles(columns, tile)
    width = _to_tiles(query.shape[-1], HEAD) if "cudnn" in op.name else query.shape[-1]
    seconds = 4.0 * scores * width * (2.5 if backward else 1.0) / rate
    if op.base_name.startswith(FLASH):
        return _flash(op, seconds * _slower(columns, op, gpu, backward=backward), traffic_seconds)
    precision = "half" if is_half else "fp32"
    share = _causal_share(op, columns, tile, SKIPPED_FOR_NOTHING[precision][backward])
    masked = "masked " if is_half and "efficient" in op.name else ""  # the others take no mask, or a whole one
    drawn = heads * rows * columns if _drops_out(op) else 0
    score_flops = (0.0 if is_half or backward else SCORE_FLOPS * scores) + DRAW_FLOPS[precision][backward] * drawn
    return Work(
        f"{masked}{precision} attention{' backward' if backward else ''}",
        share * seconds,
        traffic_seconds,
        extra_seconds=share * score_flops / gpu.fp32_flops,
    )


def _causal_share(op: Operation, columns: int, tile: int, skipped_for_nothing: float) -> float:
    """Returns the share of the time that is left under a causal mask: that of the tiles on and below the diagonal."""
    if not _is_causal(op):
        return 1.0
    tiles = _to_tiles(columns, tile) // tile
    return skipped_for_nothing + (1 - skipped_for_nothing) * (tiles + 1) / (2 * tiles)


def _is_causal(op: Operation) -> bool:
    """Tells whether the mask is causal, a choice that may be left out and comes after others."""
    choices = [argument for argument in op.arguments if isinstance(argument, bool)]
    return any(choices[CHOICES_BEFORE.get(op.base_name, 0) :][:1])


def _flash(op: Operation, arithmetic_seconds: float, traffic_seconds: float) -> Work:
    """The work of flash-attn's kernels, whose dropout was not timed."""
    return Work(f"flash attention{' backward' if 'backward' in op.name else ''}", arithmetic_seconds, traffic_seconds)


def _slower(columns: int, op: Operation, gpu: GpuEntry, *, backward: bool) -> float:
    """Returns how many times longer flash-attn's arithmetic takes than that of all scores would on an H200."""
    rate = 1.0 if gpu.capability[0] in HAVE_NEWER_INSTRUCTIONS else AT_OLDER_RATE
    share, more = CAUSAL[backward]
    return rate * (share + more / max(_to_tiles(columns, TILE) // TILE, 2) if _is_causal(op) else 1.0)


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


def _to_tiles(size: int, tile: int) -> int:
    return -(-size // tile) * tile
