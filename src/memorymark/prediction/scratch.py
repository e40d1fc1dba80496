"""What CUDA kernels allocate out of sight: scratch space that an operation takes beyond its results and gives back.

The rules come from the sources of torch where they are there to read (reductions, embeddings, softmax, attention) and
from measurements where they are not (cuDNN's convolutions, which copy their tensors into another memory layout, and
its recurrent layers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction import recurrent
from memorymark.prediction.convolution import Convolution
from memorymark.prediction.operation import Operation, TensorFacts
from memorymark.units import KIB, MIB

THREADS_PER_MULTIPROCESSOR = {(7, 5): 1024, (8, 6): 1536, (8, 9): 1536, (12, 0): 1536}
INDEX_BYTES = 8
# Small things that kernels of cuDNN ask for with the rest: 16 to 256 bytes, which matters only for the rounding.
PARAMETER_BYTES = 16


@dataclass(frozen=True)
class Scratch:
    """What an operation takes and gives back.

    ``copies`` are there before its results and go when it ends. What comes ``after`` the results comes in turn: a size
    that goes at once, or several requests in order, of which -1 gives the first back and so on. With ``each_result``,
    each follows the result that it is for. Where there is no room for what is ``optional``, it is done without.
    """

    after: tuple[int | tuple[int, ...], ...] = ()
    copies: tuple[int, ...] = ()
    each_result: bool = False
    optional: bool = False

    @property
    def peak_bytes(self) -> int:
        """The most that it takes at once."""
        return sum(self.copies) + max(map(_most_at_once, self.after), default=0)


def _most_at_once(requests: int | tuple[int, ...]) -> int:
    if isinstance(requests, int):
        return requests
    sizes = [request for request in requests if request >= 0]
    return max(accumulate(request if request >= 0 else -sizes[-1 - request] for request in requests))


NOTHING = Scratch()
Rule = Callable[[Operation, GpuEntry], "int | Scratch"]


def scratch_of(operation: Operation, gpu: GpuEntry) -> Scratch:
    """What an operation takes beyond its results."""
    rule = RULES.get(operation.name)
    taken = rule(operation, gpu) if rule else NOTHING
    if isinstance(taken, int):
        return Scratch((taken,)) if taken else NOTHING
    return taken


def cublas_workspace_bytes(gpu: GpuEntry) -> int:
    """What cuBLAS takes once for each thread that multiplies matrices, and keeps."""
    return 32 * MIB if gpu.capability >= (9, 0) else 8320 * 1024


def dropout_state_bytes(gpu: GpuEntry) -> int:
    """What torch takes when a recurrent layer first drops something out, and keeps: a random state for each thread."""
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
    values = _ceil(inputs, block_width) if along_rows else inputs
    outputs_per_block = 1 if along_rows else block_width
    if values < min(16 * block_height, 256):
        return 0  # each row of threads has an output of its own
    values = _ceil(values, block_height)
    grid = _ceil(outputs // vector, outputs_per_block)
    target = gpu.multiprocessors * (_threads(gpu) // (block_width * block_height))
    if values < 256 or grid > target:
        return 0
    blocks = max(min(_ceil(target, grid), _ceil(values, 16)), _ceil(values, 256))
    if blocks <= 1:
        return 0
    # Where a block's columns are outputs, torch reserves a whole block's width for every one of them.
    return 4 * outputs * blocks * (1 if along_rows else block_width * vector)


def _reduces_last(op: Operation) -> bool:
    tensor, result = op.inputs[0], op.outputs[0]
    if result.numel == 1:
        return True
    # The result keeps a reduced dimension as 1 or drops it; what is left at the end is not reduced. In a permuted
    # tensor it is not what lies next to each other either.
    return result.shape[-1:] != tensor.shape[-1:] or (not tensor.contiguous and result.numel == tensor.shape[-1])


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _power_of_two(value: int) -> int:
    return 1 << (max(value, 1).bit_length() - 1)


def _embedding_backward(op: Operation, _: GpuEntry) -> int | Scratch:
    gradient, indices = op.inputs[0], op.inputs[1]
    count, width, rows = indices.numel, gradient.shape[-1], op.outputs[0].shape[0]
    if count <= 3072:
        return 0  # a kernel that sorts nothing
    indices_bytes, segments = count * INDEX_BYTES, min(count, rows)
    if rows <= 2:
        return 6 * indices_bytes
    segments_bytes, parts = segments * INDEX_BYTES, count // 10 + segments
    sorting = (indices_bytes, indices_bytes, -2, segments_bytes, segments_bytes)
    return Scratch(((*sorting, parts * INDEX_BYTES, parts * width * 4, -6, -5, -4, -3, -1),))


def _softmax_backward(op: Operation, _: GpuEntry) -> int:
    return op.inputs[0].nbytes


def _safe_softmax(op: Operation, _: GpuEntry) -> int:
    return op.inputs[0].numel  # one flag an element


def _contiguous_copies(op: Operation, _: GpuEntry) -> Scratch:
    return Scratch(copies=_copied(op.inputs))


def _copied(tensors: Sequence[TensorFacts]) -> tuple[int, ...]:
    return tuple(tensor.nbytes for tensor in tensors if not tensor.contiguous and tensor.nbytes)


def _layer_norm_backward(op: Operation, gpu: GpuEntry) -> Scratch:
    """Contiguous copies and, for many short rows, partial gradients of weight and bias and what adding them takes."""
    normed, copies = op.inputs[1], _copied(op.inputs)
    width = op.inputs[-1].numel if len(op.inputs) > 4 else normed.shape[-1]
    rows = normed.numel // max(width, 1)
    if rows <= 65536 or width // 32 >= gpu.multiprocessors // 2:
        return Scratch(copies=copies)
    parts = _ceil(rows, 32)
    part_bytes, sums = parts * width * 4, _partial_sums(parts, width, gpu, along_rows=False)
    adding = (sums, -3, sums, -4) if sums else ()
    return Scratch(((part_bytes, part_bytes, *adding, -1, -2),), copies)


def _efficient_attention_backward(op: Operation, _: GpuEntry) -> Scratch:
    """The product of the result and its gradient and its sums, then the gradient of the query in fp32."""
    query = op.inputs[1]
    batch, heads, length, width = query.shape
    blocks = batch * heads * _ceil(length, 64) * _ceil(width, 64)
    sums = 4 * batch * heads * length
    return Scratch(((query.numel * 4, sums, sums, -2, -1, blocks * (64 * 64 * 4 + 16), -3, -4),))


def _flash_attention_backward(op: Operation, gpu: GpuEntry) -> int:
    query, key = op.inputs[1], op.inputs[2]
    batch, heads, length, width = query.shape
    rounded = length if gpu.capability >= (9, 0) else _ceil(length, 128) * 128
    total = batch * heads * rounded * 4 * (width + 1) + PARAMETER_BYTES
    if key.shape[1] != heads:  # gradients of shared keys and values are first made for every head
        total += 2 * batch * heads * key.shape[2] * width * query.dtype.itemsize
    return total


def _convolution(op: Operation, _: GpuEntry) -> Scratch:
    """Where there is no room for what cuDNN's first choice takes, it chooses another algorithm, which takes nothing."""
    conv = Convolution.of(op)
    image, weight = conv.image, conv.weight
    if image.channels_last:
        copies_weight = not (weight.channels_last or conv.window == 1 or conv.is_depthwise)
        return Scratch((weight.nbytes,), optional=True) if copies_weight else NOTHING
    copies = _copied((image,))
    if conv.groups > 1 or conv.is_pointwise(4) or _has_own_kernel(conv) or _is_huge(conv):
        return Scratch(copies=copies)
    return Scratch((_in_other_layout(conv),), copies, optional=True)


def _convolution_backward(op: Operation, _: GpuEntry) -> Scratch:
    conv = Convolution.of(op)
    image, weight, gradient = conv.image, conv.weight, conv.result
    if conv.is_depthwise:
        return NOTHING if image.contiguous else Scratch((gradient.nbytes + image.nbytes,), optional=True)
    copies: tuple[int, ...] = ()
    if image.channels_last and gradient.channels_last:
        for_image = for_weight = weight.nbytes
    else:
        copies = _copied((gradient, image))
        if _has_own_kernel(conv) or _is_huge(conv):
            return Scratch(copies=copies)
        layout = _in_other_layout(conv)
        for_image, for_weight = layout, layout + _partial_weights(weight)
        if conv.is_pointwise(4):
            for_image = PARAMETER_BYTES
        if conv.is_pointwise(16 // image.dtype.itemsize):
            over_images = min(image.shape[0], 64) * weight.numel * 4
            for_weight = over_images + (0 if image.dtype == torch.float32 else PARAMETER_BYTES)
    made = tuple(size for size, is_made in zip((for_image, for_weight), conv.gradients, strict=True) if is_made)
    return Scratch(made, copies, each_result=True, optional=True)


def _partial_weights(weight: TensorFacts) -> int:
    """Gradients of the weight over parts of the images, in fp32, before they are added up.

    How many parts cuDNN makes is its own choice; this is about what it chose for most of those that were recorded.
    """
    size = max(4 * weight.numel, 1)
    if weight.dtype != torch.float32:
        parts = 9 * MIB // 4 // size
        return parts * size + 512 if parts > 1 else 0
    if size > 8 * MIB:
        return 8 * MIB
    parts = 8 * MIB // size
    return size * (parts if size < 64 * KIB else min(parts, 14)) + 512


def _in_other_layout(conv: Convolution) -> int:
    """What all of it takes with the channels last, where a window of one place is the same in both layouts."""
    weight_bytes = _padded(conv.weight) if conv.window > 1 else 0
    return _padded(conv.image) + _padded(conv.result) + weight_bytes + PARAMETER_BYTES


def _is_huge(conv: Convolution) -> bool:
    """More elements than 32 bits count, which only kernels that copy nothing take."""
    return max(conv.image.numel, conv.result.numel) >= 2**31


def _has_own_kernel(conv: Convolution) -> bool:
    """Few channels and a small window in fp32: cuDNN has kernels for the plain layout."""
    return conv.image.dtype == torch.float32 and conv.image.shape[1] < 4 and conv.window < 16


def _padded(tensor: TensorFacts) -> int:
    """The bytes of a copy with the channels last and padded to what tensor cores want."""
    multiple = 16 // tensor.dtype.itemsize
    channels = _ceil(tensor.shape[1], multiple) * multiple
    return tensor.nbytes // max(tensor.shape[1], 1) * channels


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
    "aten.convolution.default": _convolution,
    "aten.convolution_backward.default": _convolution_backward,
    recurrent.FORWARD: recurrent.workspace,
    recurrent.BACKWARD: recurrent.workspace,
}
