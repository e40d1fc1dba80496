"""Scratch space: what CUDA kernels allocate beyond their results and free again.

The rules come from torch's source where it is open (reductions, embeddings, softmax, attention) and from measurements
where it is not (cuDNN's convolutions and recurrent layers).
"""

from __future__ import annotations

from collections.abc import Callable

from memorymark.catalog import GpuEntry
from memorymark.prediction.memory.convolution_scratch import backward_scratch, forward_scratch
from memorymark.prediction.memory.scratch_space import NOTHING, PARAMETER_BYTES, Scratch, ceil_div, contiguous_copies
from memorymark.prediction.tracing import recurrent
from memorymark.prediction.tracing.operation import Operation
from memorymark.units import MIB

THREADS_PER_MULTIPROCESSOR = {(7, 5): 1024, (8, 6): 1536, (8, 9): 1536, (12, 0): 1536}
INDEX_BYTES = 8
# flash-attn rounds lengths up to this many tokens.
FLASH_BLOCK = 128
Rule = Callable[[Operation, GpuEntry], "int | Scratch"]


def scratch_of(operation: Operation, gpu: GpuEntry) -> Scratch:
    """Returns the scratch space of an operation."""
    rule = RULES.get(operation.name)
    taken = rule(operation, gpu) if rule else NOTHING
    if isinstance(taken, int):
        return Scratch((taken,)) if taken else NOTHING
    return taken


def cublas_workspace_bytes(gpu: GpuEntry) -> int:
    """Returns the workspace that cuBLAS allocates once for each thread that multiplies matrices, and keeps."""
    return 32 * MIB if gpu.capability >= (9, 0) else 8320 * 1024


def dropout_state_bytes(gpu: GpuEntry) -> int:
    """Returns the random states that torch allocates at the first dropout of a recurrent layer, and keeps."""
    return 24 * gpu.multiprocessors * _threads(gpu)


def _threads(gpu: GpuEntry) -> int:
    return THREADS_PER_MULTIPROCESSOR.get(gpu.capability, 2048)


def _reduction(op: Operation, gpu: GpuEntry) -> int:
    """torch's reduction kernel (ATen/native/cuda/Reduce.cuh): partial results of the blocks that share an output."""
    tensor, result = op.inputs[0], op.outputs[0]
    outputs, elements = max(result.numel, 1), tensor.numel
    if elements == 0 or outputs == elements:
        return 0
    inputs = elements // outputs
    return _partial_sums(inputs, outputs, gpu, along_rows=_reduces_last(op))


def _partial_sums(inputs: int, outputs: int, gpu: GpuEntry, *, along_rows: bool) -> int:
    vector = 1
    if along_rows:
        width, height = inputs, outputs
        if outputs == 1 and width > 128:
            width //= 4
    else:
        while vector < 4 and outputs % (2 * vector) == 0:
            vector *= 2
        width, height = outputs // vector, inputs
    threads = 512 // vector
    block_width = min(_power_of_two(min(width, threads)), 32)
    block_height = min(_power_of_two(min(height, threads)), threads // block_width)
    block_width = min(_power_of_two(min(width, threads)), threads // block_height)
    values = ceil_div(inputs, block_width) if along_rows else inputs
    outputs_per_block = 1 if along_rows else block_width
    if values < min(16 * block_height, 256):
        return 0  # each row of threads has its own output
    values = ceil_div(values, block_height)
    grid = ceil_div(outputs // vector, outputs_per_block)
    target = gpu.multiprocessors * (_threads(gpu) // (block_width * block_height))
    if values < 256 or grid > target:
        return 0
    blocks = max(min(ceil_div(target, grid), ceil_div(values, 16)), ceil_div(values, 256))
    if blocks <= 1:
        return 0
    # If a block's columns are outputs, torch reserves a whole block's width for each of them.
    return 4 * outputs * blocks * (1 if along_rows else block_width * vector)


def _reduces_last(op: Operation) -> bool:
    tensor, result = op.inputs[0], op.outputs[0]
    if result.numel == 1:
        return True
    # The result keeps a reduced dimension as 1 or drops it; a dimension left at the end is not reduced. In a permuted
    # tensor the last dimension is not contiguous either.
    return result.shape[-1:] != tensor.shape[-1:] or (not tensor.contiguous and result.numel == tensor.shape[-1])


def _power_of_two(value: int) -> int:
    return 1 << (max(value, 1).bit_length() - 1)


def _embedding_backward(op: Operation, _: GpuEntry) -> Scratch:
    gradient, indices = op.inputs[0], op.inputs[1]
    count, width, rows = indices.numel, gradient.shape[-1], op.outputs[0].shape[0]
    copies = contiguous_copies((indices, gradient))
    if count <= 3072:
        return Scratch(copies=copies)  # a kernel that sorts nothing
    indices_bytes, segments = count * INDEX_BYTES, min(count, rows)
    if rows <= 2:
        return Scratch((6 * indices_bytes,), copies)
    segments_bytes, parts = segments * INDEX_BYTES, count // 10 + segments
    sorting = (indices_bytes, indices_bytes, -2, segments_bytes, segments_bytes)
    return Scratch(((*sorting, parts * INDEX_BYTES, parts * width * 4, -6, -5, -4, -3, -1),), copies)


def _softmax_backward(op: Operation, _: GpuEntry) -> int:
    return op.inputs[0].nbytes


def _safe_softmax(op: Operation, _: GpuEntry) -> int:
    return op.inputs[0].numel  # one flag per element


def _contiguous_copies(op: Operation, _: GpuEntry) -> Scratch:
    return Scratch(copies=contiguous_copies(op.inputs))


def _layer_norm_backward(op: Operation, gpu: GpuEntry) -> Scratch:
    """Contiguous copies and, for many short rows, partial gradients of weight and bias and the space to add them."""
    normed, copies = op.inputs[1], contiguous_copies(op.inputs)
    width = op.inputs[-1].numel if len(op.inputs) > 4 else normed.shape[-1]
    rows = normed.numel // max(width, 1)
    if rows <= 65536 or width // 32 >= gpu.multiprocessors // 2:
        return Scratch(copies=copies)
    parts = ceil_div(rows, 32)
    part_bytes, sums = parts * width * 4, _partial_sums(parts, width, gpu, along_rows=False)
    adding = (sums, -3, sums, -4) if sums else ()
    return Scratch(((part_bytes, part_bytes, *adding, -1, -2),), copies)


def _efficient_attention_backward(op: Operation, _: GpuEntry) -> Scratch:
    """The product of the result and its gradient and its sums, then the gradient of the query in fp32."""
    query = op.inputs[1]
    batch, heads, length, width = query.shape
    blocks = batch * heads * ceil_div(length, 64) * ceil_div(width, 64)
    sums = 4 * batch * heads * length
    return Scratch(((query.numel * 4, sums, sums, -2, -1, blocks * (64 * 64 * 4 + 16), -3, -4),))


def _flash_attention_backward(op: Operation, gpu: GpuEntry) -> int:
    query, key = op.inputs[1], op.inputs[2]
    batch, heads, length, width = query.shape
    rounded = length if gpu.capability >= (9, 0) else ceil_div(length, 128) * 128
    total = batch * heads * rounded * 4 * (width + 1) + PARAMETER_BYTES
    if key.shape[1] != heads:  # gradients of shared keys and values are first computed for every head
        total += 2 * batch * heads * key.shape[2] * width * query.dtype.itemsize
    return total


def _flash_attn_backward(op: Operation, _: GpuEntry) -> Scratch:
    """Sums, the query's gradient in fp32, and those of shared keys and values for every head (flash_api.cpp)."""
    query, key = op.inputs[1], op.inputs[2]
    heads, width = query.shape[-2:]
    if len(query.shape) == 3:  # several texts in one row, after which come the bounds of each
        rows = query.shape[0] + FLASH_BLOCK * (op.inputs[6].numel - 1)
    else:
        rows = query.shape[0] * ceil_div(query.shape[1], FLASH_BLOCK) * FLASH_BLOCK
    step = 32 if width <= 128 else 64
    requests = [4 * heads * rows, 4 * heads * rows * ceil_div(width, step) * step]
    if key.shape[-2] != heads:
        requests += 2 * [key.nbytes // key.shape[-2] * heads]
    return Scratch(((*requests, *range(-len(requests), 0)),))


RULES: dict[str, Rule] = {
    "aten.sum.dim_IntList": _reduction,
    "aten.sum.default": _reduction,
    "aten.mean.dim": _reduction,
    "aten.linalg_vector_norm.default": _reduction,
    "aten.embedding_dense_backward.default": _embedding_backward,
    "aten._softmax_backward_data.default": _softmax_backward,
    "aten._safe_softmax.default": _safe_softmax,
    "aten.native_layer_norm.default": _contiguous_copies,
    "aten.native_layer_norm_backward.default": _layer_norm_backward,
    "aten._scaled_dot_product_efficient_attention_backward.default": _efficient_attention_backward,
    "aten._scaled_dot_product_flash_attention_backward.default": _flash_attention_backward,
    "aten._scaled_dot_product_cudnn_attention_backward.default": _flash_attention_backward,
    "aten._flash_attention_backward.default": _flash_attn_backward,
    "aten.convolution.default": forward_scratch,
    "aten.convolution_backward.default": backward_scratch,
    recurrent.FORWARD: recurrent.workspace,
    recurrent.BACKWARD: recurrent.workspace,
}
