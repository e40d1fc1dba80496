"""Settings that make the same step slower than necessary."""

from __future__ import annotations

from collections.abc import Iterator

from memorymark.catalog import gpu_with_id
from memorymark.watch import code as changes
from memorymark.watch.findings.base import Finding, gained, is_low_precision
from memorymark.watch.gains import Gains
from memorymark.watch.observation import Observation

# Below this fraction of memory in use, checkpointing is not needed.
MEMORY_TO_SPARE = 0.4
# Below this speedup compiling is not worth waiting for.
WORTH_COMPILING = 1.1


def precision(seen: Observation, gains: Gains) -> Iterator[Finding]:
    """Finds that the training uses 32 bits on a GPU that is faster with 16."""
    device, model = seen.device, seen.model
    if device is None or model is None or model.precision != "float32" or seen.autocast is not None:
        return
    capability = device.capability or (0, 0)
    if capability < (7, 0):
        return
    low = "bf16" if capability >= (8, 0) else "fp16"
    now = "TF32" if seen.tf32 and capability >= (8, 0) else "fp32"
    gpu = gpu_with_id(device.gpu_id)
    is_rated = gpu is not None and not gpu.memory_only
    ratio = gpu.half_flops / (gpu.tf32_flops if now == "TF32" else gpu.fp32_flops) if gpu and is_rated else None
    faster = f"up to {ratio:.0f}x" if ratio else ""
    rated = f"; by its datasheet the {device.name} multiplies matrices {faster} faster in {low}" if faster else ""
    yield Finding(
        kind="precision",
        headline=f"It trains in {now}, which this GPU is slow at"
        if now == "fp32"
        else f"It trains in {now}, not {low}",
        title=f"Train in {low}",
        reason=f"weights are float32, no autocast was seen and TF32 is {'on' if seen.tf32 else 'off'}{rated}",
        code=changes.precision(seen, low),
        note="Check that the loss stays the same; activations then take about half the memory as well.",
        **gained(gains.precision(low, ratio)),
    )


def optimizer(seen: Observation, gains: Gains) -> Iterator[Finding]:
    """Finds that the optimizer launches more kernels than necessary."""
    slow = [one.name for one in seen.optimizers if one.can_fuse and not one.fused]
    if slow:
        yield Finding(
            kind="optimizer",
            headline=f"{slow[0]} is not the fused one",
            title=f"Use the fused {slow[0]}",
            reason="it updates all parameters in a few kernels; the result is the same",
            code=changes.fused(seen, slow[0]),
            **gained(gains.fused()),
        )


def channels_last(seen: Observation, gains: Gains) -> Iterator[Finding]:
    """Finds that convolutions run in a layout that tensor cores do not support."""
    model, on_tensor_cores = seen.model, is_low_precision(seen) or seen.tf32
    if model is not None and model.has_convolutions and not model.channels_last and on_tensor_cores:
        yield Finding(
            kind="channels_last",
            headline="Convolutions run in the slower memory format",
            title="Keep images in channels_last",
            reason="convolutions run on tensor cores in that layout; now each one converts",
            code="model = model.to(memory_format=torch.channels_last)\n"
            "images = images.to(memory_format=torch.channels_last)",
            **gained(gains.channels_last()),
        )


def checkpointing(seen: Observation, gains: Gains) -> Iterator[Finding]:
    """Finds that checkpointing runs the forward pass twice to save memory that is not needed."""
    model, memory, device = seen.model, seen.memory, seen.device
    if model is None or not model.checkpointing or memory is None or device is None:
        return
    used = memory.peak_reserved_bytes / max(device.capacity_bytes, 1)
    if used < MEMORY_TO_SPARE:
        yield Finding(
            kind="checkpointing",
            headline="Gradient checkpointing saves memory that is not needed",
            title="Try without gradient checkpointing",
            reason=f"it runs the forward pass twice to save memory, of which {100 * (1 - used):.0f} % is unused",
            code="model.gradient_checkpointing_disable()",
            **gained(gains.without_checkpointing()),
        )


def compiling(seen: Observation, gains: Gains) -> Iterator[Finding]:
    """Finds that kernels which compiled code would fuse take much of the time."""
    if seen.model is None or seen.model.compiled or (gain := gains.compiled()) is None:
        return
    if gain.speedup >= WORTH_COMPILING:
        yield Finding(
            kind="compile",
            headline="Much of the time goes into small operations, which compiled code fuses",
            title="Compile the model",
            reason="by the operations of one step, elementwise ones, norms and the host's calls take much of its time",
            code=changes.compiled(seen),
            note="The first step takes up to minutes, and so does every new shape. This estimate is rougher than the "
            "others: it rests on three models.",
            **gained(gain),
        )
