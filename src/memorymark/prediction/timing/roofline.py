"""The time of a step: the arithmetic and memory traffic of every operation, or the host's time if that is longer.

Rates come from a GPU's datasheet. How much longer kernels take than at those rates was measured on an NVIDIA H200 for
each kind, and is assumed to be the same on other GPUs.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing import attention as attention_time
from memorymark.prediction.timing import convolution as convolution_time
from memorymark.prediction.timing import elementwise as elementwise_time
from memorymark.prediction.timing import lookups as lookup_time
from memorymark.prediction.timing import norms as norm_time
from memorymark.prediction.timing import products as product_time
from memorymark.prediction.timing import recurrent as recurrent_time
from memorymark.prediction.timing import resizing as resizing_time
from memorymark.prediction.timing import updates as update_time
from memorymark.prediction.timing.reached import reached
from memorymark.prediction.timing.work import ISSUED_ON_H200, Work, issued_flops
from memorymark.prediction.tracing import recurrent
from memorymark.prediction.tracing.operation import COPIES, GATHERED, MATRIX_PRODUCTS, MODEL_RETURNS, SENT, Operation
from memorymark.prediction.tracing.program import Program

RECURRENT = frozenset({recurrent.FORWARD, recurrent.BACKWARD})


# Kind of work: how many times longer than at full rate its arithmetic takes, and its memory traffic. They add up.
COSTS: dict[str, tuple[float, float]] = {
    "fp32 product": (0.0, 0.0),
    "TF32 product": (1.0, 1.2),
    "TF32 product of uneven rows": (1.8, 3.0),
    "tensor-core product": (0.95, 1.2),
    "product of uneven rows": (0.3, 1.6),
    "product of odd rows": (0.42, 2.5),
    "fp32 attention": (0.95, 1.2),
    "fp32 attention backward": (2.3, 1.2),
    "half attention": (1.3, 2.5),
    "half attention backward": (1.6, 3.5),
    "masked half attention": (5.6, 3.2),
    "masked half attention backward": (2.7, 3.6),
    "flash attention": (2.75, 1.0),
    "flash attention backward": (3.2, 3.8),
    "layer norm": (0.0, 1.5),
    "layer norm backward": (0.0, 3.5),
    "group norm": (1.0, 0.0),
    "group norm backward": (0.0, 2.5),
    "batch norm": (0.0, 2.4),
    "batch norm backward": (0.0, 2.5),
    "channels-last batch norm": (0.0, 4.2),
    "channels-last batch norm backward": (0.0, 2.8),
    "softmax": (0.0, 2.35),
    "safe softmax": (0.0, 5.4),
    "softmax backward": (0.0, 2.6),
    "log softmax backward": (0.0, 1.65),
    "short softmax": (0.0, 1.35),
    "reduction": (0.0, 2.1),
    "lookup": (0.0, 1.3),
    "filling": (0.0, 1.3),
    "indexed sum": (0.0, 12.0),
    "optimizer": (0.0, 1.25),
    "elementwise": (0.0, 1.08),
    "masked elementwise": (0.0, 2.15),
    "dropout": (0.0, 1.55),
    "strided elementwise": (0.0, 1.9),
}
# Multiprocessors that issue more than this for each byte of memory's rate hide all but the traffic itself, which takes
# this many times longer than at full rate.
HIDING_ISSUES, AT_BEST = 65.0, 1.08
# The factors of these say how many instructions an H200 issues, not how well it uses its memory.
ISSUE_BOUND = frozenset(
    {"channels-last batch norm", "channels-last batch norm backward", "batch norm", "batch norm backward"}
)
KINDS = {
    "sum": "reduction",
    "mean": "reduction",
    "linalg_vector_norm": "reduction",
    "index_put": "indexed sum",
    "native_dropout": "dropout",
    "masked_fill": "masked elementwise",
}
# Operations that run no kernel: views, memory that is not written yet, and the end of a forward pass.
VIEWS = frozenset({MODEL_RETURNS}) | frozenset(
    "view _unsafe_view t transpose transpose_ detach expand permute slice select unsqueeze squeeze split "
    "split_with_sizes unbind alias as_strided lift_fresh _reshape_alias view_as diagonal unfold empty empty_strided "
    "empty_like new_empty".split()
)
# The gradient of such a loss is mostly zeros, and nothing is read for those.
WRITE_ONLY = frozenset({"nll_loss_backward", "nll_loss2d_backward"})
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
# How sharply the slower of host and device decides.
STEEPNESS = 6


def launches(operation: Operation) -> bool:
    """Tells whether an operation runs a kernel."""
    works = bool(operation.inputs or operation.outputs) and not operation.on_host
    # What is sent is another model's work.
    works = works and operation.name != GATHERED and not operation.name.startswith(SENT)
    return works and operation.base_name not in VIEWS and operation.base_name not in COPIES


def device_seconds(operation: Operation, gpu: GpuEntry, *, tf32: bool, peak_bytes: float = inf) -> float:
    """Returns the GPU time of one operation, in a step with this memory peak."""
    gpu = reached(gpu)
    if operation.name in RECURRENT:
        return recurrent_time.device_seconds(operation, gpu)
    if operation.base_name in convolution_time.NAMES:
        return convolution_time.device_seconds(operation, gpu, peak_bytes) + KERNEL_GAP_SECONDS
    seconds = _kernel_seconds(operation, gpu, tf32=tf32)
    if tf32 and operation.base_name in MATRIX_PRODUCTS:
        # cuBLAS may use it but need not.
        seconds = min(seconds, _kernel_seconds(operation, gpu, tf32=False))
    return seconds + KERNEL_GAP_SECONDS


def kind_of(operation: Operation, gpu: GpuEntry) -> str:
    """Returns the kind of an operation's work."""
    if operation.name in RECURRENT:
        return "recurrent"
    return "convolution" if operation.base_name in convolution_time.NAMES else _work(operation, gpu, tf32=False).kind


def _kernel_seconds(operation: Operation, gpu: GpuEntry, *, tf32: bool) -> float:
    work = _work(operation, gpu, tf32=tf32)
    arithmetic, traffic = COSTS[work.kind]
    hiding = ISSUED_ON_H200 if work.kind in ISSUE_BOUND else HIDING_ISSUES
    traffic = max(min(traffic, AT_BEST), traffic * min(hiding * gpu.bytes_per_second / issued_flops(gpu), 1.0))
    seconds = arithmetic * work.arithmetic_seconds + traffic * work.traffic_seconds
    # Slow memory can bound even operations that arithmetic limits on other GPUs.
    return max(seconds, work.traffic_seconds, work.least_seconds) + work.extra_seconds


# Asked again for each batch size and each GPU.
@lru_cache(maxsize=2)
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
    return float((device**STEEPNESS + host**STEEPNESS) ** (1 / STEEPNESS))


def _work(op: Operation, gpu: GpuEntry, *, tf32: bool) -> Work:
    name = op.base_name
    read, written = sum(t.nbytes for t in op.inputs), sum(t.nbytes for t in op.outputs)
    if name == "all_gather_copy_in":  # of what the others fill, only its own part is written
        read = written = read - op.inputs[-1].nbytes
    traffic_seconds = (written if name in WRITE_ONLY else read + written) / gpu.bytes_per_second
    if name in product_time.NAMES:
        return product_time.work_of(op, gpu, traffic_seconds, tf32=tf32)
    if name in norm_time.NAMES:
        return norm_time.work_of(op, gpu, traffic_seconds)
    if name in resizing_time.NAMES:
        return resizing_time.work_of(op, gpu, traffic_seconds)
    if name in lookup_time.NAMES:
        return lookup_time.work_of(op, gpu, traffic_seconds)
    if name.startswith(attention_time.FLASH) or (
        name.startswith("_scaled_dot_product") and len(op.inputs[0].shape) == 4
    ):
        return attention_time.work_of(op, gpu, traffic_seconds)
    if name.startswith(update_time.PREFIXES):
        return update_time.work_of(op, gpu)
    if name in KINDS:
        return Work(KINDS[name], 0.0, traffic_seconds)
    return elementwise_time.work_of(op, gpu, traffic_seconds)
