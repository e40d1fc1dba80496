"""What to change, ranked, each with its reason in numbers. Pure: facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from memorymark.advice.screening import split
from memorymark.catalog import match_gpu
from memorymark.integrations import changes
from memorymark.integrations.observation import Observation
from memorymark.units import GIB, format_bytes

Kind = Literal[
    "out_of_memory", "data", "precision", "batch", "host", "allocator", "optimizer", "channels_last", "checkpointing"
]

# Parts of the step's time that waiting must take to be worth a word, and to be what the training is bound by.
WAITING_COUNTS, WAITING_RULES = 0.1, 0.3
# No loader is so slow that a step without it would take less than this part.
LEAST_STEP = 0.1
# To take a batch from another process costs about as much; who waits less than this for one gains nothing by workers.
LEAST_WAIT_SECONDS = 1e-3
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
    """One thing to change: ``headline`` says what is wrong, ``title`` what to do, ``reason`` by which numbers.

    ``gain`` is the most it can bring; ``weight`` ranks findings, the heaviest first.
    """

    kind: Kind
    headline: str
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
    if not seen.steps and seen.ending is not None and not seen.ending.out_of_memory:
        return f"The script ended by {seen.ending.kind} before its first optimizer step: there was nothing to watch."
    if not seen.steps and seen.ending is None:
        why = "no optimizer of torch.optim took a step in its own process"
        return f"The script never trained: {why}. Processes that it starts are not watched.{ended}"
    return None


def _headline(seen: Observation, findings: list[Finding]) -> str:
    first = findings[0] if findings else None
    if first is not None and first.weight >= 1:
        return f"{first.headline}."
    if seen.timed_steps < STEPS_FOR_TIMES:
        return f"Only {seen.steps} steps ran: too few to say what to change."
    if seen.device is not None and seen.device.kind != "cuda":
        where = "CPU" if seen.device.kind == "cpu" else seen.device.name
        data = "Little time passes between the steps" if seen.loader is None else "The data loader keeps up"
        return f"{data}. It trained on the {where}: what to change on a GPU was not seen."
    if first is not None:
        return f"Close to what this GPU can do; one small thing is left: {first.title[0].lower()}{first.title[1:]}."
    return "Nothing is worth changing."


def _memory_ran_out(seen: Observation, estimate: Estimate | None) -> Iterator[Finding]:
    if seen.ending is None or not seen.ending.out_of_memory:
        return
    today = seen.batch_size
    size = f"batch {today}" if today else "this batch"
    # An estimate that the end contradicts is worth nothing.
    fits = estimate.recommended if estimate is not None and today and estimate.recommended < today else None
    title, code, savings = "Use a smaller batch", "", ", ".join(_savings(seen))
    note = f"What needs less memory too: {savings}."
    if today == 1:
        title = f"Save memory in the step itself: {savings}"
        note = "Where weights and optimizer state are what fills it, an 8-bit optimizer or LoRA saves more."
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
        weight=100,
    )


def _savings(seen: Observation) -> Iterator[str]:
    """What takes less memory at the same batch, and is not done already."""
    if not _is_low_precision(seen):
        yield "bf16"
    if seen.model is None or not seen.model.checkpointing:
        yield "gradient checkpointing"
    yield "shorter samples"


def _is_low_precision(seen: Observation) -> bool:
    model = seen.model
    return seen.autocast is not None or (model is not None and model.precision in ("bfloat16", "float16"))


def _data(seen: Observation) -> Iterator[Finding]:
    lost, step = seen.lost, seen.step_seconds
    if lost is None or step is None or seen.timed_steps < STEPS_FOR_TIMES or lost < WAITING_COUNTS:
        return
    if (seen.lost_seconds or 0.0) / max(seen.micro_batches, 1) < LEAST_WAIT_SECONDS:
        return
    on_gpu = seen.device is not None and seen.device.kind == "cuda"
    who = "the GPU" if on_gpu else "the training"
    part = f"of each {_time(step)} step, {who} waits {_time(seen.lost_seconds or 0.0)} ({100 * lost:.0f} %)"
    weight, wanted = 10 * lost, _workers(seen)
    if seen.loader is None:
        if lost < WAITING_RULES:  # what passes between steps is not only data
            return
        yield Finding(
            kind="data",
            headline="Much of the time passes between the steps, where a larger batch does not help",
            title="Prepare batches while the step runs, in the workers of a DataLoader",
            reason=f"{part} between an optimizer step and the next forward pass; no DataLoader was seen",
            code=changes.loader(seen, wanted),
            gain=_less_waiting(step, lost, 0, wanted),
            weight=weight,
        )
        return
    workers = seen.loader.num_workers
    how = "loaded in the main process (num_workers=0)" if not workers else f"with {workers} workers"
    rules = lost >= WAITING_RULES
    headline = (
        "You are bound by the data loader, a larger batch will not help"
        if rules
        else f"Waiting for data takes {100 * lost:.0f} % of the time"
    )
    may_pin = on_gpu and not seen.loader.pin_memory
    yield Finding(
        kind="data",
        headline=headline,
        title=f"Load data in {wanted} workers" if wanted > workers else "Make loading a sample cheaper",
        reason=f"{part} for data, {how}",
        code=changes.loader(seen, max(wanted, workers)) if wanted > workers or may_pin else "",
        gain=_less_waiting(step, lost, workers, wanted),
        note=(
            ""
            if wanted > workers
            else f"More workers than the {seen.processors} processors here do not help: decode and augment once, ahead "
            "of the training, or on the GPU."
        ),
        weight=weight + (2 if rules else 0),
    )


def _less_waiting(step: float, lost: float, workers: int, wanted: int) -> str:
    """What is gained if as many workers share the loading, or, where there are as many already, if it cost nothing."""
    work, loading = step * (1 - lost), step * (workers or lost)
    shared = loading / wanted if wanted > workers else 0.0
    return f"up to {step / max(work, shared, step * LEAST_STEP):.1f}x"


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
    rated = f"; by its datasheet the {device.name} multiplies matrices {faster} faster in {low}" if faster else ""
    yield Finding(
        kind="precision",
        headline=f"It trains in {now}, which this GPU is slow at"
        if now == "fp32"
        else f"It trains in {now}, not {low}",
        title=f"Train in {low}",
        reason=f"weights are float32, no autocast was seen and TF32 is {'on' if seen.tf32 else 'off'}{rated}",
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
    larger = _larger(seen, today, estimate)
    if idle and larger is None and (model := seen.model) is not None and not model.compiled:
        yield Finding(
            kind="host",
            headline="The GPU waits for the host, which launches kernels too slowly",
            title="Compile the model",
            reason=f"{busy}{power}, though data is there",
            code=changes.compiled(seen),
            gain=f"up to {1 / max(seen.busy or 1, 0.05):.1f}x",
            note="Calls that wait for the GPU in every step, such as loss.item(), have the same effect.",
            weight=1.5,
        )
    if estimate is None or larger is None or full or used >= MEMORY_USED or (seen.lost or 0.0) >= WAITING_RULES:
        return
    size, accumulate = larger
    before, after = today * seen.micro_batches, size * accumulate
    note = (
        f"The effective batch stays {after}, so nothing else changes."
        if after == before
        else f"The effective batch becomes {after} instead of {before}, so little else changes."
    )
    if seen.micro_batches == 1:
        note = (
            "Speed flattens out before the memory is full: double the batch until samples/s stops growing. The "
            "effective batch grows too: raise the learning rate (by the square root for Adam), and watch the loss."
        )
    yield Finding(
        kind="batch",
        headline=f"{100 * (1 - used):.0f} % of the memory is never used: a batch of about {size} fits",
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


def _larger(seen: Observation, today: int, estimate: Estimate | None) -> tuple[int, int] | None:
    """A batch that is larger by enough, and how often to accumulate it.

    Who accumulates today keeps the effective batch, but for a few samples.
    """
    if estimate is None:
        return None
    effective = today * seen.micro_batches
    most = estimate.recommended if seen.micro_batches == 1 else min(estimate.recommended, effective)
    size, accumulate = split(effective, most)
    return (size, accumulate) if size >= LARGER_BATCH_COUNTS * today else None


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
            headline="The memory is too full: the allocator keeps giving memory back and asking for it again",
            title="Let segments of memory grow",
            reason=f"{memory.retries} retries in {seen.steps} steps, each of which waits for the GPU",
            code=changes.EXPANDABLE,
            note="If that is not enough, use a slightly smaller batch.",
            weight=5.0,
        )
    elif part > FRAGMENTED and slack > GIB and crowded:
        yield Finding(
            kind="allocator",
            headline="Fragmentation holds memory that nobody uses",
            title="Let segments of memory grow",
            reason=f"{format_bytes(slack)} ({100 * part:.0f} %) of what is reserved was not in use at the peak",
            code=changes.EXPANDABLE,
            weight=1.2,
        )


def _small_things(seen: Observation) -> Iterator[Finding]:
    slow = [optimizer.name for optimizer in seen.optimizers if optimizer.can_fuse and not optimizer.fused]
    if slow:
        yield Finding(
            kind="optimizer",
            headline=f"{slow[0]} is not the fused one",
            title=f"Use the fused {slow[0]}",
            reason="it updates all parameters in a few kernels; the result is the same",
            code=changes.fused(seen, slow[0]),
            gain="a few per cent",
            weight=0.5,
        )
    model, memory, device = seen.model, seen.memory, seen.device
    low = _is_low_precision(seen)
    if model is not None and model.has_convolutions and not model.channels_last and (low or seen.tf32):
        yield Finding(
            kind="channels_last",
            headline="Convolutions run in the slower memory format",
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
                headline="Gradient checkpointing saves memory that is not needed",
                title="Try without gradient checkpointing",
                reason=f"it runs the forward pass twice to save memory, of which {100 * (1 - used):.0f} % is unused",
                code="model.gradient_checkpointing_disable()",
                gain="up to 1.3x",
                weight=1.5,
            )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
