"""Memory that ran out or that the allocator cannot use."""

from __future__ import annotations

from collections.abc import Iterator

from memorymark.advice.screening import split
from memorymark.units import GIB, format_bytes
from memorymark.watch import code as changes
from memorymark.watch.findings.base import MEMORY_USED, Estimate, Finding, gained, is_low_precision
from memorymark.watch.gains import Gain
from memorymark.watch.observation import Observation

FRAGMENTED = 0.15
# What saves memory leaves the speed; what each retry costs depends on how long the GPU has work queued.
NO_FASTER = Gain(1.0, 1.0, 1.0, "assumed")
NO_RETRIES = Gain(1.2, 1.0, 2.0, "assumed")


def ran_out(seen: Observation, estimate: Estimate | None) -> Iterator[Finding]:
    """Finds that the training ended because memory ran out."""
    if seen.ending is None or not seen.ending.out_of_memory:
        return
    today = seen.batch_size
    size = f"batch {today}" if today else "this batch"
    # Running out of memory disproves an estimate that says this batch fits.
    fits = estimate.recommended if estimate is not None and today and estimate.recommended < today else None
    title, code, savings = "Use a smaller batch", "", ", ".join(_savings(seen))
    note = f"Also saves memory: {savings}."
    if today == 1:
        title = f"Save memory in the step itself: {savings}"
        note = "If weights and optimizer state fill the memory, an 8-bit optimizer or LoRA saves more."
    elif today:
        smaller, accumulate = split(today * seen.micro_batches, fits or today // 2)
        title, code = f"{title}: {smaller}", changes.batch(seen, smaller, accumulate=accumulate)
    yield Finding(
        kind="out_of_memory",
        headline=f"It ran out of memory with {size}" + (f"; about {fits} should fit" if fits else ""),
        title=title,
        reason=f"{seen.ending.kind}: {seen.ending.message}",
        code=code,
        note=note,
    )


def _savings(seen: Observation) -> Iterator[str]:
    """Yields ways to use less memory at the same batch that are not in use yet."""
    if seen.keeps_outputs:
        yield "keeping only the loss"
    if not is_low_precision(seen):
        yield "bf16"
    if seen.model is None or not seen.model.checkpointing:
        yield "gradient checkpointing"
    yield "shorter samples"


def outputs(estimate: Estimate | None) -> Iterator[Finding]:
    """Finds that the loop keeps outputs of the model that nothing needs any more."""
    if estimate is None or estimate.maximum_without_outputs is None:
        return
    yield Finding(
        kind="outputs",
        headline="The loop keeps the model's outputs through the backward pass, which does not need them",
        title=f"Keep only the loss: batch {estimate.maximum} becomes {estimate.maximum_without_outputs}",
        reason="the script holds what the model returned, such as logits, until the next step",
        code=changes.DROP_OUTPUTS,
        note="This costs nothing; what is learned and how fast stay the same.",
        **gained(NO_FASTER),
    )


def allocator(seen: Observation) -> Iterator[Finding]:
    """Finds that the allocator holds memory that it cannot use."""
    memory, device = seen.memory, seen.device
    if memory is None or device is None or not memory.modelled or memory.allocator == "expandable":
        return
    slack = memory.peak_reserved_bytes - memory.peak_allocated_bytes
    part = slack / max(memory.peak_reserved_bytes, 1)
    crowded = memory.peak_reserved_bytes > MEMORY_USED * device.capacity_bytes
    if memory.retries:
        yield Finding(
            kind="allocator",
            headline="The memory is too full: the allocator keeps freeing memory and requesting it again",
            title="Let segments of memory grow",
            reason=f"{memory.retries} retries in {seen.steps} steps, each of which waits for the GPU",
            code=changes.EXPANDABLE,
            note="If that is not enough, use a slightly smaller batch.",
            **gained(NO_RETRIES),
        )
    elif part > FRAGMENTED and slack > GIB and crowded:
        yield Finding(
            kind="allocator",
            headline="Fragmentation wastes memory",
            title="Let segments of memory grow",
            reason=f"{format_bytes(slack)} ({100 * part:.0f} %) of what is reserved was not in use at the peak",
            code=changes.EXPANDABLE,
            **gained(NO_FASTER),
        )
