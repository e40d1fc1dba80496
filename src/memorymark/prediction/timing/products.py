"""The work of matrix products, as measured on an NVIDIA H200 (torch 2.11, November 2026)."""

from __future__ import annotations

from math import ceil, hypot, prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing.reached import fp32_sustained
from memorymark.prediction.timing.work import HALF, Work, half_flops
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, Operation, TensorFacts

GROUPED = "_grouped_mm"
INT8 = "int8_product"
NAMES = MATRIX_PRODUCTS | {INT8}
# A matrix product consists of square tiles of this size; each multiprocessor computes one at a time.
TILE = 128
SPLIT_DEPTH = 512
# Rows are read in words of 16 bytes. Of half-precision rows that are no multiple of eight elements, single elements or
# pairs are read by the CUDA cores, which bounds the product; of TF32, rows of a multiple of four are whole words.
ALIGNED_HALF, ALIGNED_TF32 = 8, 4
# fp32: the tiles that kernels have, and the share of the rate that each reaches. Batched products on Ampere only use
# the largest. Arithmetic and traffic overlap; idle lanes of a tile take this share of the power of busy ones.
FP32_TILES = ((128, 128, 1.0), (128, 64, 0.9), (64, 128, 0.9), (64, 64, 0.9), (32, 32, 0.35))
BATCHED, AMPERE = frozenset({"bmm", "baddbmm"}), 8
FP32_FACTOR, FP32_TRAFFIC, IDLE_LANES = 1.03, 1.3, 0.6
FP32_SPLIT_DEPTH, MANY_ROUNDS = 256, 8
FP32_START_SECONDS = 4e-6
# The kernels for Hopper and Blackwell are those for Ampere, which leave a part of their cores idle.
FP32_SHARE = {9: 0.8, 10: 0.8, 12: 0.8}


def work_of(op: Operation, gpu: GpuEntry, traffic_seconds: float, *, tf32: bool) -> Work:
    """Returns the work of a matrix product."""
    if op.base_name == INT8:
        return _int8_product(op, gpu, traffic_seconds)
    left, right = op.inputs[:2] if op.base_name == GROUPED else op.inputs[-2:]
    flops = _flops(op, left, right, gpu)
    rows = (right.shape[-1], _row(left), _row(right))
    if right.dtype in HALF:
        at_full_rate = flops / half_flops(gpu, right.dtype)
        if any(row % ALIGNED_HALF for row in rows):
            kind = "product of odd rows" if any(row % 2 for row in rows) else "product of uneven rows"
            return Work(kind, flops / gpu.fp32_flops, traffic_seconds, least_seconds=at_full_rate)
        return Work("tensor-core product", at_full_rate, traffic_seconds)
    if tf32 and gpu.tf32_flops > gpu.fp32_flops:
        kind = "TF32 product of uneven rows" if any(row % ALIGNED_TF32 for row in rows) else "TF32 product"
        return Work(kind, flops / gpu.tf32_flops, traffic_seconds)
    return _fp32_product(op, left, right, gpu, traffic_seconds)


def _fp32_product(op: Operation, left: TensorFacts, right: TensorFacts, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """The CUDA cores' product: with the best tile, at the boost clock or as the board's power allows."""
    if op.base_name == GROUPED:
        return Work("fp32 product", 0.0, traffic_seconds, least_seconds=_flops(op, left, right, gpu) / gpu.fp32_flops)
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    count = max(prod(left.shape[:-2]), 1)
    only_large = op.base_name in BATCHED and gpu.capability[0] == AMPERE
    sizes = FP32_TILES[:1] if only_large else FP32_TILES
    issued = min(_issued(count, rows, depth, columns, tall, wide, gpu) / share for tall, wide, share in sizes)
    needed = 2.0 * count * rows * depth * columns
    rate = FP32_SHARE.get(gpu.capability[0], 1.0)
    powered = (IDLE_LANES * issued + (1 - IDLE_LANES) * needed) / fp32_sustained(gpu)
    arithmetic = FP32_FACTOR * max(issued / (rate * gpu.fp32_flops), powered)
    seconds = hypot(arithmetic, FP32_TRAFFIC * traffic_seconds) + FP32_START_SECONDS
    return Work("fp32 product", 0.0, traffic_seconds, least_seconds=seconds)


def _issued(count: int, rows: int, depth: int, columns: int, tall: int, wide: int, gpu: GpuEntry) -> float:
    """Returns the operations of a product in tiles of this size, of which the last round may leave the GPU idle."""
    tiles = count * -(-rows // tall) * -(-columns // wide)
    parts = max(min(gpu.multiprocessors // max(tiles, 1), depth // FP32_SPLIT_DEPTH), 1)
    share = tiles * parts / gpu.multiprocessors
    idle = ceil(share) / share if 0 < share < MANY_ROUNDS else 1.0
    return 2.0 * tiles * tall * wide * depth * idle


def _int8_product(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Assumes the rate of fp16: datasheets promise twice that, and LLM.int8 was never seen to reach it."""
    rows, weight = op.inputs
    flops = 2.0 * rows.numel * weight.shape[0]
    return Work("tensor-core product", flops / gpu.half_flops, traffic_seconds)


def _row(matrix: TensorFacts) -> int:
    """Returns how many elements are contiguous; a transposed matrix is stored by columns."""
    return matrix.shape[-1 if matrix.contiguous else -2]


def _flops(op: Operation, left: TensorFacts, right: TensorFacts, gpu: GpuEntry) -> float:
    """Returns the operations of a matrix product, including those lost to a partly filled wave of tiles."""
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    count = max(prod(left.shape[:-2]), 1)
    if op.base_name == GROUPED:
        count, rows, depth = _groups(op, rows, depth)
    tiles = max(count * -(-rows // TILE) * -(-columns // TILE), 1)
    if tiles < gpu.multiprocessors:  # few tiles with a long inner dimension are split along it
        tiles = min(tiles * max(depth // SPLIT_DEPTH, 1), gpu.multiprocessors)
    idle_factor = -(-tiles // gpu.multiprocessors) * gpu.multiprocessors / tiles
    return 2.0 * count * _to_tiles(rows) * depth * _to_tiles(columns) * idle_factor


def _groups(op: Operation, rows: int, depth: int) -> tuple[int, int, int]:
    """Returns how many products a grouped one has, and the rows and the depth of each if all are equally large."""
    left, right = op.inputs[:2]
    if len(left.shape) == len(right.shape) == 2:  # the gradient of the weights: groups share out the inner dimension
        count = op.outputs[0].shape[0]
        return count, rows, -(-depth // count)
    count = max(left.shape[0] if len(left.shape) == 3 else 1, right.shape[0] if len(right.shape) == 3 else 1)
    return count, rows if len(left.shape) == 3 else -(-rows // count), depth


def _to_tiles(size: int) -> int:
    """Rounds a size up to whole tiles; a small size gets a smaller tile."""
    return size if 2 * size <= TILE else -(-size // TILE) * TILE
