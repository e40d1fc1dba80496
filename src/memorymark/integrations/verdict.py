"""What to change, ranked, each with its reason in numbers. Pure: facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from memorymark.catalog import match_gpu
from memorymark.integrations import changes
from memorymark.integrations.observation import Observation
from memorymark.units import GIB, format_bytes

Kind = Literal[
    "out_of_memory", "data", "precision", "batch", "host", "allocator", "optimizer", "channels_last", "checkpointing"
]

# Parts of the step's time that waiting must take to be worth a word, and to be what the training is bound by.
WAITING_COUNTS, WAITING_RULES = 0.1, 0.3
# From here on a GPU is as good as busy, and its memory as good as used.
BUSY, POWER, MEMORY_USED = 0.9, 0.75, 0.7
LARGER_BATCH_COUNTS = 1.3
FRAGMENTED = 0.15
STEPS_FOR_TIMES = 5


@dataclass(frozen=True)
class Estimate:
    """The largest batch that should fit, the one that leaves room, and what both rest on."""

    maximum: int
    recommended: int
    basis: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to change. ``gain`` is the most it can bring; ``weight`` ranks findings, the heaviest first."""

    kind: Kind
    title: str
    reason: str
    code: str = ""
    gain: str = ""
    note: str = ""
    weight: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the findings behind it, the heaviest first."""

    headline: str
    findings: list[Finding] = field(default_factory=list)


def judge(seen: Observation, estimate: Estimate | None = None, exit_code: int | None = None) -> Verdict:
    """What the facts mean."""
    if (sentence := _nothing_seen(seen, exit_code)) is not None:
        return Verdict(sentence)
    found = (*_memory_ran_out(seen, estimate), *_data(seen), *_on_gpu(seen, estimate))
    findings = sorted(found, key=lambda finding: -finding.weight)
    return Verdict(_headline(seen, findings), findings)


def _nothing_seen(seen: Observation, exit_code: int | None) -> str | None:
    ended = "" if not exit_code else f" The script ended with exit code {exit_code}."
    if seen.problem is not None and not seen.steps:
        return f"Watching failed, so there is nothing to report ({seen.problem}).{ended}"
    if not seen.torch_imported:
        return f"The script never imported torch in its own process, so there was no training to watch.{ended}"
    if not seen.steps:
        why = "no optimizer of torch.optim took a step in its own process"
        return f"The script never trained: {why}. Processes that it starts are not watched.{ended}"
    return None


def _headline(seen: Observation, findings: list[Finding]) -> str:
    first = findings[0] if findings else None
    if first is not None and first.weight >= 1:
        return f"{first.title}."
    if seen.timed_steps < STEPS_FOR_TIMES:
        return f"Only {seen.steps} steps ran: too few to say what to change."
    if seen.device is not None and seen.device.kind != "cuda":
        where = "CPU" if seen.device.kind == "cpu" else seen.device.name
        return f"The data loader keeps up. It trained on the {where}: what to change on a GPU was not seen."
    if first is not None:
        return f"Close to what this GPU can do; one small thing is left: {first.title[0].lower()}{first.title[1:]}."
    return "Nothing is worth changing."


def _memory_ran_out(seen: Observation, estimate: Estimate | None) -> Iterator[Finding]:
    if seen.ending is None or not seen.ending.out_of_memory:
        return
    size = f"batch {seen.batch_size}" if seen.batch_size else "this batch"
    fits = f"; about {estimate.recommended} should fit" if estimate is not None else ""
    half = max((seen.batch_size or 2) // 2, 1)
    smaller = min(estimate.recommended, seen.batch_size or estimate.recommended) if estimate is not None else half
    yield Finding(
        kind="out_of_memory",
        title=f"It ran out of memory with {size}{fits}",
        reason=f"{seen.ending.kind}: {seen.ending.message}",
        code=changes.batch(seen, smaller, accumulate=seen.micro_batches * max(round((seen.batch_size or 1) / smaller), 1)),
        note="bf16, gradient checkpointing and shorter samples need less memory too.",
        weight=100,
    )


def _data(seen: Observation) -> Iterator[Finding]:
    lost, step = seen.lost, seen.step_seconds
    if lost is None or step is None or seen.timed_steps < STEPS_FOR_TIMES or lost < WAITING_COUNTS:
        return
    on_gpu = seen.device is not None and seen.device.kind == "cuda"
    who = "the GPU" if on_gpu else "the training"
    part = f"of each {_time(step)} step, {who} waits {_time(seen.lost_seconds or 0.0)} ({100 * lost:.0f} %)"
    weight, gain = 10 * lost, f"up to {1 / max(1 - lost, 0.02):.1f}x"
    if seen.loader is None:
        yield Finding(
            kind="data",
            title="Much of the time passes between the steps",
            reason=f"{part} between an optimizer step and the next forward pass; no DataLoader was seen",
            code=changes.loader(seen, _workers(seen)),
            gain=gain,
            weight=weight,
        )
        return
    workers = seen.loader.num_workers
    how = "loaded in the main process (num_workers=0)" if not workers else f"with {workers} workers"
    rules = lost >= WAITING_RULES
    title = (
        "You are bound by the data loader, a larger batch will not help"
        if rules
        else f"Waiting for data takes {100 * lost:.0f} % of the time"
    )
    wanted = _workers(seen)
    yield Finding(
        kind="data",
        title=title,
        reason=f"{part} for data, {how}",
        code=changes.loader(seen, wanted) if wanted > workers or not seen.loader.pin_memory else "",
        gain=gain,
        note=(
            ""
            if wanted > workers
            else f"More workers than the {seen.processors} processors here do not help: make a sample cheaper, by doing "
            "decoding and augmentation once, ahead of the training, or on the GPU."
        ),
        weight=weight + (2 if rules else 0),
    )


def _workers(seen: Observation) -> int:
    """As many as the processors allow; beyond 16 the main process is what limits."""
    return max(min(seen.processors, 16), 1)


def _on_gpu(seen: Observation, estimate: Estimate | None) -> Iterator[Finding]:
    if seen.device is None or seen.device.kind != "cuda":
        return
    yield from _precision(seen)
    yield from _batch(seen, estimate)
    yield from _allocator(seen)
    yield from _small_things(seen)


def _precision(seen: Observation) -> Iterator[Finding]:
    device, model = seen.device, seen.model
    if device is None or model is None or model.precision != "float32" or seen.autocast is not None:
        return
    capability = device.capability or (0, 0)
    if capability < (7, 0):
        return
    low = "bf16" if capability >= (8, 0) else "fp16"
    now = "TF32" if seen.tf32 and capability >= (8, 0) else "fp32"
    gpu = match_gpu(device.name)
    faster = f"up to {gpu.half_flops / (gpu.tf32_flops if now == 'TF32' else gpu.fp32_flops):.0f}x" if gpu else ""
    rated = f", for which the {device.name} is rated {faster} higher in {low}" if faster else ""
    yield Finding(
        kind="precision",
        title=f"Train in {low}: matrix products run in {now}",
        reason=f"weights are float32, no autocast was seen, TF32 is {'on' if seen.tf32 else 'off'}{rated}",
        code=changes.precision(seen, low),
        gain=f"{faster} for matrix products" if faster else "",
        note="Check that the loss stays the same; activations then take about half the memory as well.",
        weight=(6.0 if now == "fp32" else 2.0) * (1 - (seen.lost or 0.0)),
    )


def _batch(seen: Observation, estimate: Estimate | None) -> Iterator[Finding]:
    memory, device, today = seen.memory, seen.device, seen.batch_size
    if memory is None or device is None or not device.capacity_bytes or not today:
        return
    used = memory.peak_reserved_bytes / device.capacity_bytes
    idle = seen.busy is not None and seen.busy < BUSY and (seen.lost or 0.0) < WAITING_COUNTS
    busy = "" if seen.busy is None else f"the GPU is busy {100 * seen.busy:.0f} % of the time"
    power = "" if seen.power is None else f" at {100 * seen.power:.0f} % of its power"
    full = seen.busy is not None and seen.busy >= BUSY and seen.power is not None and seen.power >= POWER
    larger = estimate is not None and estimate.recommended >= LARGER_BATCH_COUNTS * today
    if idle and not larger and (model := seen.model) is not None and not model.compiled:
        yield Finding(
            kind="host",
            title="The GPU waits for the host, which launches kernels too slowly",
            reason=f"{busy}{power}, though data is there and memory is used",
            code=changes.compiled(seen),
            gain=f"up to {1 / max(seen.busy or 1, 0.05):.1f}x",
            note="Calls that wait for the GPU in every step, such as loss.item(), have the same effect.",
            weight=1.5,
        )
    if estimate is None or not larger or full or used >= MEMORY_USED or (seen.lost or 0.0) >= WAITING_RULES:
        return
    size = estimate.recommended
    accumulate = seen.micro_batches
    if accumulate > 1:
        size = min(size, today * accumulate)
        accumulate = max(round(seen.micro_batches * today / size), 1)
    same_effective = seen.micro_batches > 1
    note = (
        f"The effective batch stays {size * accumulate}."
        if same_effective
        else "The effective batch changes with it: raise the learning rate too (by the square root of the ratio for Adam, "
        "in proportion for SGD), and watch the loss."
    )
    yield Finding(
        kind="batch",
        title=f"Use a larger batch: about {size} instead of {today}",
        reason=(
            f"{format_bytes(memory.peak_reserved_bytes)} of {format_bytes(device.capacity_bytes)} are used "
            f"({100 * used:.0f} %){', ' + busy + power if busy else ''}; at most about {estimate.maximum} should fit"
        ),
        code=changes.batch(seen, size, accumulate=accumulate),
        gain=f"up to {1 / max(seen.busy, 0.05):.1f}x" if idle and seen.busy else "",
        note=note,
        weight=4.0 if idle else 2.5,
    )


def _allocator(seen: Observation) -> Iterator[Finding]:
    memory, device = seen.memory, seen.device
    if memory is None or device is None or not memory.modelled:
        return
    slack = memory.peak_reserved_bytes - memory.peak_allocated_bytes
    part = slack / max(memory.peak_reserved_bytes, 1)
    crowded = memory.peak_reserved_bytes > MEMORY_USED * device.capacity_bytes
    if memory.retries:
        yield Finding(
            kind="allocator",
            title="The memory is too full: the allocator keeps giving memory back and asking for it again",
            reason=f"{memory.retries} retries in {seen.steps} steps, each of which waits for the GPU",
            code=changes.EXPANDABLE,
            note="If that is not enough, use a slightly smaller batch.",
            weight=5.0,
        )
    elif part > FRAGMENTED and slack > GIB and crowded:
        yield Finding(
            kind="allocator",
            title="Fragmentation holds memory that nobody uses",
            reason=f"{format_bytes(slack)} ({100 * part:.0f} %) of what is reserved was not in use at the peak",
            code=changes.EXPANDABLE,
            weight=1.2,
        )


def _small_things(seen: Observation) -> Iterator[Finding]:
    slow = [optimizer.name for optimizer in seen.optimizers if optimizer.can_fuse and not optimizer.fused]
    if slow:
        yield Finding(
            kind="optimizer",
            title=f"Use the fused {slow[0]}",
            reason="it updates all parameters in a few kernels; the result is the same",
            code=changes.fused(seen, slow[0]),
            gain="a few per cent",
            weight=0.5,
        )
    model, memory, device = seen.model, seen.memory, seen.device
    low = seen.autocast is not None or (model is not None and model.precision in ("bfloat16", "float16"))
    if model is not None and model.has_convolutions and not model.channels_last and (low or seen.tf32):
        yield Finding(
            kind="channels_last",
            title="Keep images in channels_last",
            reason="convolutions run on tensor cores in that layout; now each one converts",
            code="model = model.to(memory_format=torch.channels_last)\n"
            "images = images.to(memory_format=torch.channels_last)",
            gain="up to 2x for convolutions",
            weight=1.5,
        )
    if model is not None and model.checkpointing and memory is not None and device is not None:
        used = memory.peak_reserved_bytes / max(device.capacity_bytes, 1)
        if used < 0.4:
            yield Finding(
                kind="checkpointing",
                title="Try without gradient checkpointing",
                reason=f"it runs the forward pass twice to save memory, of which {100 * (1 - used):.0f} % is unused",
                code="model.gradient_checkpointing_disable()",
                gain="up to 1.3x",
                weight=1.5,
            )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
