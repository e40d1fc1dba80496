"""The time of a step: the arithmetic and memory traffic of every operation, or the host's time if that is longer.

Rates come from a GPU's datasheet. How much longer kernels take than at those rates was measured on an NVIDIA H200 for
each kind, and is assumed to be the same on other GPUs.
"""

from __future__ import annotations

from math import inf, prod

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing import attention as attention_time
from memorymark.prediction.timing import convolution as convolution_time
from memorymark.prediction.timing import elementwise as elementwise_time
from memorymark.prediction.timing import recurrent as recurrent_time
from memorymark.prediction.timing.work import HALF, Work, half_flops
from memorymark.prediction.tracing import recurrent
from memorymark.prediction.tracing.operation import COPIES, MATRIX_PRODUCTS, MODEL_RETURNS, Operation, TensorFacts
from memorymark.prediction.tracing.program import Program

GROUPED = "_grouped_mm"
RECURRENT = frozenset({recurrent.FORWARD, recurrent.BACKWARD})


# Kind of work: how many times longer than at full rate its arithmetic takes, and its memory traffic. They add up.
COSTS: dict[str, tuple[float, float]] = {
    "fp32 product": (1.13, 1.0),
    "tensor-core product": (1.0, 1.2),
    "product of odd width": (0.71, 0.0),
    "product with odd rows": (0.47, 0.0),
    "fp32 attention": (2.07, 1.2),
    "fp32 attention backward": (2.3, 1.2),
    "half attention": (1.3, 2.5),
    "half attention backward": (1.6, 3.5),
    "masked half attention": (5.6, 3.2),
    "masked half attention backward": (2.7, 3.6),
    "flash attention": (2.75, 1.0),
    "flash attention backward": (3.2, 3.8),
    "convolution": (1.4, 3.3),
    "convolution backward": (2.4, 3.3),
    "half convolution": (1.4, 4.7),
    "half convolution backward": (2.4, 4.9),
    "narrow convolution": (1.4, 6.0),
    "narrow convolution backward": (2.4, 7.2),
    "pointwise convolution": (0.8, 1.1),
    "pointwise convolution backward": (0.8, 1.2),
    "stem convolution": (14.0, 4.3),
    "stem convolution backward": (4.4, 1.8),
    "channels-last convolution": (1.8, 0.9),
    "channels-last convolution backward": (2.1, 1.45),
    "depthwise convolution": (9.5, 3.5),
    "depthwise convolution backward": (40.0, 3.0),
    "large depthwise convolution": (9.5, 3.5),
    "large depthwise convolution backward": (114.0, 0.0),
    "grouped convolution": (25.0, 5.5),
    "grouped convolution backward": (26.0, 6.5),
    "layer norm": (0.0, 2.6),
    "layer norm backward": (0.0, 3.5),
    "batch norm": (0.0, 2.4),
    "batch norm backward": (0.0, 2.5),
    "channels-last batch norm": (0.0, 4.2),
    "channels-last batch norm backward": (0.0, 2.8),
    "softmax": (0.0, 1.9),
    "reduction": (0.0, 2.1),
    "embedding": (0.0, 3.9),
    "embedding backward": (0.0, 12.0),
    "optimizer": (0.0, 1.25),
    "elementwise": (0.0, 1.08),
    "strided elementwise": (0.0, 1.9),
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
# Operations that run no kernel: views, memory that is not written yet, and the end of a forward pass.
VIEWS = frozenset({MODEL_RETURNS}) | frozenset(
    "view _unsafe_view t transpose transpose_ detach expand permute slice select unsqueeze squeeze split "
    "split_with_sizes unbind alias as_strided lift_fresh _reshape_alias view_as diagonal unfold empty empty_strided "
    "empty_like new_empty".split()
)
# The gradient of such a loss is mostly zeros, and nothing is read for those.
WRITE_ONLY = frozenset({"nll_loss_backward", "nll_loss2d_backward"})
# A matrix product consists of square tiles of this size; each multiprocessor computes one at a time.
TILE = 192
SPLIT_DEPTH = 512
# Half-precision rows whose length is not a multiple of this are not read in whole words.
ALIGNED = 8
# The seconds between two kernels of a stream.
KERNEL_GAP_SECONDS = 2.5e-6
# The host's seconds for a call from Python, for one from autograd, for a view, for each parameter that a plain or a
# fused optimizer updates, and for a whole step: measured on a server's processor.
EAGER_CALL_SECONDS = 49e-6
AUTOGRAD_CALL_SECONDS = 8e-6
VIEW_SECONDS = 5.4e-6
# Assumed: a copy to or from the host is several calls.
COPY_CALL_SECONDS = 60e-6
UPDATE_SECONDS, FUSED_UPDATE_SECONDS = 32e-6, 4e-6
# What gradient checkpointing adds to each repeated call: hooks on saved tensors, and the random state.
RECOMPUTING_SECONDS = 17e-6
STEP_SECONDS = 0.6e-3


def launches(operation: Operation) -> bool:
    """Tells whether an operation runs a kernel."""
    works = bool(operation.inputs or operation.outputs) and not operation.on_host
    return works and operation.base_name not in VIEWS and operation.base_name not in COPIES


def device_seconds(operation: Operation, gpu: GpuEntry, *, tf32: bool, peak_bytes: float = inf) -> float:
    """Returns the GPU time of one operation, in a step with this memory peak."""
    if operation.name in RECURRENT:
        return recurrent_time.device_seconds(operation, gpu)
    seconds = _kernel_seconds(operation, gpu, peak_bytes, tf32=tf32)
    if tf32 and operation.base_name in MATRIX_PRODUCTS:
        # cuBLAS may use it, and need not.
        seconds = min(seconds, _kernel_seconds(operation, gpu, peak_bytes, tf32=False))
    return seconds + KERNEL_GAP_SECONDS


def kind_of(operation: Operation, gpu: GpuEntry) -> str:
    """Returns the kind of an operation's work."""
    return "recurrent" if operation.name in RECURRENT else _work(operation, gpu, inf, tf32=False).kind


def _kernel_seconds(operation: Operation, gpu: GpuEntry, peak_bytes: float, *, tf32: bool) -> float:
    work = _work(operation, gpu, peak_bytes, tf32=tf32)
    arithmetic, traffic = COSTS[work.kind]
    seconds = arithmetic * work.arithmetic_seconds + traffic * work.traffic_seconds
    # Slow memory can bound even operations that arithmetic limits on other GPUs.
    return max(seconds, work.traffic_seconds, work.least_seconds) + work.extra_seconds


def host_seconds(
    program: Program, updated_tensors: int, *, fused: bool = False, accumulation_steps: int = 1, batch_size: int = 1
) -> float:
    """Returns how long the host takes to launch a step, which does not depend on the size of its tensors.

    It depends on how many samples there are only if the model loops over them.
    """
    seconds = STEP_SECONDS + (FUSED_UPDATE_SECONDS if fused else UPDATE_SECONDS) * updated_tensors
    for phase, growth, batches in program.counted(accumulation_steps):
        times = batches * growth.times(batch_size)
        if growth.operation.name == MODEL_RETURNS:
            continue
        if growth.operation.base_name in COPIES:
            seconds += COPY_CALL_SECONDS * times
        elif not launches(growth.operation):
            seconds += VIEW_SECONDS * times
        elif growth.operation.eager:
            recomputing = RECOMPUTING_SECONDS if phase == "backward" else 0.0
            seconds += (EAGER_CALL_SECONDS + recomputing) * times
        else:
            seconds += AUTOGRAD_CALL_SECONDS * times
    return seconds


def step_seconds(device: float, host: float) -> float:
    """Returns the time of the slower of host and device, which overlap, and a little more if both are about equal."""
    return float((device**6 + host**6) ** (1 / 6))


def _work(op: Operation, gpu: GpuEntry, peak_bytes: float, *, tf32: bool) -> Work:
    name = op.base_name
    read, written = sum(t.nbytes for t in op.inputs), sum(t.nbytes for t in op.outputs)
    traffic_seconds = (written if name in WRITE_ONLY else read + written) / gpu.bytes_per_second
    if name in MATRIX_PRODUCTS:
        return _product(op, gpu, traffic_seconds, tf32=tf32)
    if name == "int8_product":
        return _int8_product(op, gpu, traffic_seconds)
    if name in ("convolution", "convolution_backward"):
        return convolution_time.work_of(op, gpu, peak_bytes)
    if name in ("native_batch_norm", "native_batch_norm_backward"):
        return _batch_norm(op, traffic_seconds)
    if name.startswith(attention_time.FLASH) or (
        name.startswith("_scaled_dot_product") and len(op.inputs[0].shape) == 4
    ):
        return attention_time.work_of(op, gpu, traffic_seconds)
    if name.startswith(("_foreach", "_fused_adam", "_fused_sgd", "_amp_foreach")):
        return Work("optimizer", 0.0, (read + (written or read / 2)) / gpu.bytes_per_second)
    if name in KINDS:
        return Work(KINDS[name], 0.0, traffic_seconds)
    return elementwise_time.work_of(op, gpu, traffic_seconds)


def _product(op: Operation, gpu: GpuEntry, traffic_seconds: float, *, tf32: bool) -> Work:
    left, right = op.inputs[:2] if op.base_name == GROUPED else op.inputs[-2:]
    flops = _product_flops(op, left, right, gpu)
    if right.dtype in HALF:
        at_full_rate = flops / half_flops(gpu, right.dtype)
        if right.shape[-1] % ALIGNED or _row(left) % ALIGNED or _row(right) % ALIGNED:
            # Bound by how fast the CUDA cores fetch single elements.
            kind = "product of odd width" if right.shape[-1] % ALIGNED else "product with odd rows"
            return Work(kind, flops / gpu.fp32_flops, traffic_seconds, least_seconds=at_full_rate)
        return Work("tensor-core product", at_full_rate, traffic_seconds)
    if tf32 and gpu.tf32_flops > gpu.fp32_flops:
        return Work("tensor-core product", flops / gpu.tf32_flops, traffic_seconds)
    return Work("fp32 product", flops / gpu.fp32_flops, traffic_seconds)


def _int8_product(op: Operation, gpu: GpuEntry, traffic_seconds: float) -> Work:
    """Assumes the rate of fp16: datasheets promise twice that, and LLM.int8 was never seen to reach it."""
    rows, weight = op.inputs
    flops = 2.0 * rows.numel * weight.shape[0]
    return Work("tensor-core product", flops / gpu.half_flops, traffic_seconds)


def _row(matrix: TensorFacts) -> int:
    """Returns how many elements are contiguous; a transposed matrix is stored by columns."""
    return matrix.shape[-1 if matrix.contiguous else -2]


def _product_flops(op: Operation, left: TensorFacts, right: TensorFacts, gpu: GpuEntry) -> float:
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


def _batch_norm(op: Operation, traffic_seconds: float) -> Work:
    """In the default layout one block processes each channel, so few channels leave most of the GPU idle."""
    backward = "backward" in op.name
    tensor = op.inputs[0]
    kind = f"batch norm{' backward' if backward else ''}"
    if tensor.channels_last or len(tensor.shape) < 3:
        return Work(f"channels-last {kind}", 0.0, traffic_seconds)
    nanoseconds = (1.5 if backward else 0.55) * (1.6 if tensor.dtype in HALF else 1.0)
    per_channel = 1e-9 * nanoseconds * tensor.numel / tensor.shape[1]
    return Work(kind, 0.0, traffic_seconds, least_seconds=per_channel)
