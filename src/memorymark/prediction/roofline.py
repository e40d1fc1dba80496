"""How long a step takes: the arithmetic and memory traffic of every operation, or the host where it is the slower one.

Rates come from a GPU's datasheet. How much longer kernels take than those rates allow was measured on an NVIDIA H200,
kind by kind, and is taken to be the same elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction import recurrent, recurrent_time
from memorymark.prediction.convolution import Convolution
from memorymark.prediction.operation import MATRIX_PRODUCTS, Operation, TensorFacts

HALF = (torch.bfloat16, torch.float16)
RECURRENT = frozenset({recurrent.FORWARD, recurrent.BACKWARD})


# Kind of work: how many times longer than at full rate its arithmetic takes, and its memory traffic. They add up.
COSTS: dict[str, tuple[float, float]] = {
    "fp32 product": (1.2, 0.0),
    "tensor-core product": (1.15, 1.3),
    "fp32 attention": (3.0, 0.0),
    "fp32 attention backward": (2.6, 0.0),
    "half attention": (5.6, 3.2),
    "half attention backward": (2.7, 3.6),
    "convolution": (1.4, 3.3),
    "convolution backward": (2.4, 3.3),
    "half convolution": (1.4, 4.5),
    "half convolution backward": (2.2, 4.5),
    "narrow convolution": (1.4, 6.0),
    "narrow convolution backward": (2.4, 7.5),
    "pointwise convolution": (0.8, 1.1),
    "pointwise convolution backward": (0.8, 1.2),
    "stem convolution": (0.0, 12.0),
    "stem convolution backward": (0.0, 5.0),
    "channels-last convolution": (1.8, 0.9),
    "channels-last convolution backward": (2.2, 1.5),
    "depthwise convolution": (70.0, 3.5),
    "depthwise convolution backward": (550.0, 4.5),
    "grouped convolution": (25.0, 5.5),
    "grouped convolution backward": (25.0, 6.5),
    "layer norm": (0.0, 2.6),
    "layer norm backward": (0.0, 3.8),
    "batch norm": (1.0, 2.4),
    "batch norm backward": (1.0, 2.4),
    "channels-last batch norm": (0.0, 4.5),
    "channels-last batch norm backward": (0.0, 3.0),
    "softmax": (0.0, 1.9),
    "reduction": (0.0, 1.6),
    "embedding": (0.0, 3.9),
    "embedding backward": (0.0, 12.0),
    "optimizer": (0.0, 1.6),
    "elementwise": (0.0, 1.1),
    "strided elementwise": (0.0, 2.0),
}
KINDS = {
    "native_layer_norm": "layer norm",
    "native_layer_norm_backward": "layer norm backward",
    "_fused_rms_norm": "layer norm",
    "_fused_rms_norm_backward": "layer norm backward",
    "native_group_norm": "layer norm",
    "native_group_norm_backward": "layer norm",
    "_softmax": "softmax",
    "_log_softmax": "softmax",
    "_safe_softmax": "softmax",
    "_softmax_backward_data": "softmax",
    "_log_softmax_backward_data": "softmax",
    "sum": "reduction",
    "mean": "reduction",
    "linalg_vector_norm": "reduction",
    "embedding": "embedding",
    "index": "embedding",
    "gather": "embedding",
    "embedding_dense_backward": "embedding backward",
    "index_put": "embedding backward",
}
# What runs no kernel: another look at the same memory, or memory that nobody writes yet.
VIEWS = frozenset(
    "view _unsafe_view t transpose transpose_ detach expand permute slice select unsqueeze squeeze split "
    "split_with_sizes unbind alias as_strided lift_fresh _reshape_alias view_as diagonal unfold empty empty_strided "
    "empty_like new_empty".split()
)
# A matrix product is made of square tiles of this size, one for a multiprocessor at a time.
TILE = 192
SPLIT_DEPTH = 512
# Between two kernels of a stream.
KERNEL_GAP_SECONDS = 2.5e-6
# What the host takes for a call from Python, for one from autograd, for a view, for each parameter that is updated, by
# a plain optimizer or a fused one, and for a step as such: seen on the processor of a server.
EAGER_CALL_SECONDS = 49e-6
AUTOGRAD_CALL_SECONDS = 8e-6
VIEW_SECONDS = 5.4e-6
UPDATE_SECONDS, FUSED_UPDATE_SECONDS = 32e-6, 4e-6
STEP_SECONDS = 0.6e-3


def launches(operation: Operation) -> bool:
    """Whether an operation runs a kernel."""
    return bool(operation.inputs or operation.outputs) and operation.base_name not in VIEWS


def device_seconds(operation: Operation, gpu: GpuEntry, *, tf32: bool) -> float:
    """The time of one operation on the GPU."""
    if operation.name in RECURRENT:
        return recurrent_time.device_seconds(operation, gpu)
    seconds = _kernel_seconds(operation, gpu, tf32=tf32)
    if tf32 and operation.base_name in MATRIX_PRODUCTS:
        seconds = min(seconds, _kernel_seconds(operation, gpu, tf32=False))  # cuBLAS may use it, and need not
    return seconds + KERNEL_GAP_SECONDS


def _kernel_seconds(operation: Operation, gpu: GpuEntry, *, tf32: bool) -> float:
    kind, arithmetic_seconds, traffic_seconds = _work(operation, gpu, tf32)
    arithmetic, traffic = COSTS[kind]
    # Where the memory is slow, it bounds even what is limited by arithmetic elsewhere.
    return max(arithmetic * arithmetic_seconds + traffic * traffic_seconds, traffic_seconds)


def host_seconds(operations: Iterable[Operation], updated_tensors: int, *, fused: bool = False) -> float:
    """How long the host takes to ask for a step, however large its tensors are."""
    seconds = STEP_SECONDS + (FUSED_UPDATE_SECONDS if fused else UPDATE_SECONDS) * updated_tensors
    for operation in operations:
        if launches(operation):
            seconds += EAGER_CALL_SECONDS if operation.eager else AUTOGRAD_CALL_SECONDS
        else:
            seconds += VIEW_SECONDS
    return seconds


def step_seconds(device: float, host: float) -> float:
    """Host and device work side by side, so the slower one counts, a little more where both are about as slow."""
    return float((device**6 + host**6) ** (1 / 6))


def _work(op: Operation, gpu: GpuEntry, tf32: bool) -> tuple[str, float, float]:
    name = op.base_name
    read, written = sum(t.nbytes for t in op.inputs), sum(t.nbytes for t in op.outputs)
    traffic_seconds = (read + written) / gpu.bytes_per_second
    if name in MATRIX_PRODUCTS:
        left, right = op.inputs[-2], op.inputs[-1]
        flops = _product_flops(left, right, gpu)
        if right.dtype in HALF:
            return "tensor-core product", flops / _half_flops(gpu, right.dtype), traffic_seconds
        if tf32 and gpu.tf32_flops > gpu.fp32_flops:
            return "tensor-core product", flops / gpu.tf32_flops, traffic_seconds
        return "fp32 product", flops / gpu.fp32_flops, traffic_seconds
    if name in ("convolution", "convolution_backward"):
        return _convolution(op, gpu)
    if name in ("native_batch_norm", "native_batch_norm_backward"):
        return _batch_norm(op, traffic_seconds)
    if "attention" in name:
        return _attention(op, gpu, traffic_seconds)
    if name.startswith(("_foreach", "_fused_adam", "_fused_sgd", "_amp_foreach")):
        return "optimizer", 0.0, (read + (written or read / 2)) / gpu.bytes_per_second
    if name in KINDS:
        return KINDS[name], 0.0, traffic_seconds
    strided = any(not (t.contiguous or t.channels_last) for t in op.inputs)
    return "strided elementwise" if strided else "elementwise", 0.0, traffic_seconds


def _product_flops(left: TensorFacts, right: TensorFacts, gpu: GpuEntry) -> float:
    """The operations of a matrix product, with those lost where tiles do not fill the last wave, or the first."""
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    count = max(prod(left.shape[:-2]), 1)
    tiles = max(count * -(-rows // TILE) * -(-columns // TILE), 1)
    if tiles < gpu.multiprocessors:  # few tiles over a long depth are cut along it
        tiles = min(tiles * max(depth // SPLIT_DEPTH, 1), gpu.multiprocessors)
    idle_factor = -(-tiles // gpu.multiprocessors) * gpu.multiprocessors / tiles
    return 2.0 * count * _to_tiles(rows) * depth * _to_tiles(columns) * idle_factor


def _to_tiles(size: int) -> int:
    """A last tile costs as much as a full one, except that a small size is given a smaller tile."""
    return size if 2 * size <= TILE else -(-size // TILE) * TILE


def _half_flops(gpu: GpuEntry, dtype: torch.dtype) -> float:
    """Tensor cores before Ampere know fp16 but not bf16."""
    return gpu.fp32_flops if dtype == torch.bfloat16 and gpu.capability < (8, 0) else gpu.half_flops


def _convolution(op: Operation, gpu: GpuEntry) -> tuple[str, float, float]:
    conv = Convolution.of(op)
    image, weight = conv.image, conv.weight
    half, passes = image.dtype in HALF, 2 if conv.backward else 1
    places = min(
        image.numel // image.shape[1] * weight.shape[0], conv.result.numel
    )  # a transposed one's are the image's
    rate = _half_flops(gpu, image.dtype) if half else gpu.tf32_flops  # cuDNN uses TF32 unless told not to
    arithmetic_seconds = passes * 2.0 * places * prod(weight.shape[1:]) / rate
    traffic_seconds = passes * (image.nbytes + conv.result.nbytes) / gpu.bytes_per_second
    kind = _kind_of_convolution(conv)
    if kind == "stem " and half:
        traffic_seconds *= 2  # it takes its time for each number, however short
    return f"{kind}convolution{' backward' if conv.backward else ''}", arithmetic_seconds, traffic_seconds


def _kind_of_convolution(conv: Convolution) -> str:
    if conv.groups > 1:
        return "depthwise " if conv.is_depthwise else "grouped "
    if conv.image.channels_last:
        return "channels-last "
    if conv.image.shape[1] < 8:
        return "stem "
    if conv.is_pointwise(8):
        return "pointwise "
    if min(conv.weight.shape[:2]) < 64:
        return "narrow "
    return "half " if conv.image.dtype in HALF else ""


def _batch_norm(op: Operation, traffic_seconds: float) -> tuple[str, float, float]:
    """In the plain layout each channel is the work of one block, so few channels leave most of the GPU idle."""
    backward = "backward" in op.name
    tensor = op.inputs[0]
    kind = f"batch norm{' backward' if backward else ''}"
    if tensor.channels_last or len(tensor.shape) < 3:
        return f"channels-last {kind}", 0.0, traffic_seconds
    nanoseconds = (1.5 if backward else 0.55) * (1.6 if tensor.dtype in HALF else 1.0)
    per_channel = 1e-9 * nanoseconds * tensor.numel / tensor.shape[1]
    return kind, max(per_channel - COSTS[kind][1] * traffic_seconds, 0.0), traffic_seconds


def _attention(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> tuple[str, float, float]:
    backward = "backward" in op.name
    query, key = (op.inputs[1], op.inputs[2]) if backward else (op.inputs[0], op.inputs[1])
    flops = 4.0 * query.numel * key.shape[2] * (2.5 if backward else 1.0)
    half = query.dtype in HALF
    rate = _half_flops(gpu, query.dtype) if half else gpu.fp32_flops
    return f"{'half' if half else 'fp32'} attention{' backward' if backward else ''}", flops / rate, traffic_seconds
