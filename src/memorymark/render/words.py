"""The sentences of reports, shared by all output formats."""

from __future__ import annotations

from memorymark.catalog import GpuEntry, Price
from memorymark.question.recipe import QUANTIZED, Recipe
from memorymark.question.request import Request
from memorymark.question.usage import Usage
from memorymark.render.generated import generated_notes
from memorymark.render.rates import rate_interval, run_words, speed_words
from memorymark.render.several import several_notes
from memorymark.results.analysis import Analysis
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.results.uncertainty import (
    ALLOCATED_ERROR,
    MEASURED_GPUS,
    RESERVED_ERROR,
    doubt,
    knowledge_of,
    time_factors,
)
from memorymark.units import GIGA, format_bytes, format_rate

# A smaller speedup could be noise between measurements.
WORTH_SAYING = 1.05
# From this many percent on, slower is worth mentioning.
WORTH_NOTICE = 2
SYNTHETIC = "Batches are synthetic: speed and savings leave the data loader out and are upper bounds."
UNCHECKED = (
    "Less certain than usual: parts of this training were never checked on a GPU (unknown_operations, "
    "unchecked_options in the JSON). Measure on the GPU before you rely on the numbers."
)
MEMORY_ONLY = "Only memory is predicted, not speed or cost, for the"
UNTIMED = (
    "Speed is less certain than usual: parts of this training were never timed on a GPU (untimed_operations, "
    "untimed_options in the JSON); their memory was checked."
)
SMALL = " (small stand-in)"
PARTS = {
    "weights_bytes": "weights",
    "gradients_bytes": "gradients",
    "gradient_buckets_bytes": "buckets of gradients",
    "optimizer_state_bytes": "optimizer state",
    "gathered_parameters_bytes": "gathered parameters",
    "kv_cache_bytes": "KV cache of generation",
    "activations_bytes": "activations",
    "temporaries_bytes": "temporaries and workspaces",
    "allocator_slack_bytes": "allocator slack",
    "context_bytes": "CUDA context",
    "nccl_bytes": "NCCL",
    "other_processes_bytes": "other processes",
}


def heading(request: Request, info: ProbeInfo, source: str) -> tuple[str, str]:
    """Returns the model, and a line with its sample, recipe, device and source."""
    model = request.entry.name + (SMALL if info.small else "")
    memory = f"capped to {format_bytes(info.capacity_bytes)}" if info.capped else format_bytes(info.total_bytes)
    parts = (info.sample, described(request, info), f"{info.device_name} {memory}", source)
    return model, " · ".join(filter(None, parts))


def described(request: Request, info: ProbeInfo | None) -> str:
    """Describes the recipe, with the real optimizer and weights if ``info`` is known."""
    return request.recipe.describe(info.optimizer, info.weights_dtype) if info else request.recipe.describe()


def about_maximum(result: Analysis) -> str:
    """Says what stops a larger batch, and how certain that is."""
    exact = {
        "memory": f"{result.max_batch_size + 1} runs out of memory",
        "limit": f"{result.max_batch_size + 1} exceeds a launch limit, not the memory",
        "caller": "as far as --max-batch allowed",
    }[result.limited_by]
    return "; ".join(filter(None, (exact, _beside_today(result), _how_sure(result.max_batch_interval))))


def about_other_loop(result: Analysis) -> tuple[str, str, str] | None:
    """Returns the name of the other way to write the loop, its largest batch and what it is; ``None`` if alike."""
    other = result.other_loop
    if other is None:
        return None
    size = str(other.max_batch_size or "none")
    if other.keeps_outputs:
        return "outputs kept", size, "the maximum of a loop with outputs = model(**batch)"
    return "outputs dropped", size, "the maximum of a loop that keeps only the loss: loss = model(**batch).loss"


def about_packing(result: Analysis) -> list[tuple[str, str, str]]:
    """Returns what packing gains and what the longest samples take, as name, number and meaning; none if not packed."""
    packing = result.packing
    if packing is None:
        return []
    of_longest = packing.longest_max_batch_size
    worst = [("longest samples", str(of_longest or "none"), "the maximum if every sample is as long as a row")]
    if packing.gain is None:
        return worst
    each = f"{packing.samples_per_row:.3g} samples a row; one padded to each takes"
    told = f"{each} {format_rate(1e3 * (packing.longest.step_seconds or 0))} ms a step"
    return [("packing", f"{packing.gain:.3g}x", f"the tokens/s of padding: {told}"), *worst]


def _beside_today(result: Analysis) -> str:
    maximum, today, ratio = result.max_batch_size, result.current_batch_size, result.batch_ratio
    if maximum <= today:
        return "the batch you use today" if maximum == today else f"less than today's {today}"
    return f"{ratio:,.0f}x today's batch" if ratio >= 1000 else f"{ratio:.3g}x today's batch"


def _how_sure(interval: tuple[int, int] | None) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f"between {low} and {high}" if low else f"at most {high}, and perhaps not even 1"


def about_waste(result: Analysis) -> str:
    """Says how much memory today's batch leaves unused, and whether a larger one could use it."""
    today = result.current
    assert today is not None  # noqa: S101 - asked only where today's batch was tried
    percent = f"{100 * result.waste(today).fraction:.1f} %"
    if today.batch_size < result.max_batch_size:
        return f"{percent} wasted"
    larger = {
        "memory": f"a batch of {today.batch_size + 1} does not fit",
        "limit": f"a batch of {today.batch_size + 1} exceeds a launch limit",
        "caller": "--max-batch allows no larger batch",
    }[result.limited_by]
    return f"{percent} unused: {larger}"


def about_recommended(result: Analysis) -> str:
    """Says how fast the recommended batch is, and how much faster than today's."""
    best = result.recommended
    if best is None:
        if result.info.memory_only:
            return "only memory is predicted for this GPU"
        return f"no size keeps a margin of {100 * result.margin:g} %"
    give = within_rate(best) if result.source == "predicted" else ""
    return f"{speed_words(best, give)}, {_gain(result)}"


def about_run(result: Analysis) -> tuple[str, str] | None:
    """Returns what the whole run takes at the recommended batch, and at today's; ``None`` if none is described."""
    run, today, usage = result.whole_run, result.whole_run_today, result.usage
    if run is None:
        return None
    much = f"{usage.samples:,} samples" if usage.samples is not None else f"{usage.tokens:,} tokens"
    now = f"; {run_words(today)} at today's batch" if today and today != run else ""
    return run_words(run), f"for {much}{now}"


def about_savings(result: Analysis) -> tuple[str, str] | None:
    """Returns the savings of the recommended batch and the assumptions behind them, or ``None`` if there are none."""
    if result.savings is None or result.price is None or (result.speedup or 0.0) < WORTH_SAYING:
        return None
    saved = result.savings
    money = f"${saved.per_run_usd:,.2f} a run, ${saved.per_year_usd:,.0f} a year"
    return money, usage_in_words(result.price, result.usage)


def usage_in_words(price: Price, usage: Usage) -> str:
    """Describes the assumptions behind savings: the price of an hour, and how much is trained."""
    each = f"{usage.hours_per_run:.3g} h a run, {usage.runs_per_year:g} runs a year"
    people = f", {usage.people} people" if usage.people > 1 else ""
    return f"at {price.describe()}; {each}{people}"


def _gain(result: Analysis) -> str:
    now, then = result.current, result.recommended
    if result.speedup is None or now is None or then is None:
        return f"nothing to compare with: today's batch of {result.current_batch_size} {why_not_timed(result)}"
    if then.batch_size == now.batch_size:
        fastest = max(trial.samples_per_second or 0.0 for trial in result.curve)
        is_best = now.batch_size < result.max_batch_size and fastest < WORTH_SAYING * (now.samples_per_second or 0.0)
        return "the batch you use today" + (": a larger one is no faster" if is_best else "")
    if then.batch_size < now.batch_size and result.speedup < WORTH_SAYING:
        slower = 100 * (1 - result.speedup)
        speed = f"{slower:.0f} % slower than" if slower >= WORTH_NOTICE else "as fast as"
        return f"{speed} today's {now.batch_size}"
    if result.speedup < WORTH_SAYING:
        return "no faster than today: the batch size is not what slows you down"
    return f"{speedup_words(result)} faster than today, {result.source}"


def speedup_words(result: Analysis) -> str:
    """Returns the speedup with its interval, or an empty string."""
    if result.speedup is None or result.speedup_interval is None:
        return ""
    low, high = result.speedup_interval
    between = f" ({low:.2f} to {high:.2f})" if high - low >= 0.01 else ""
    return f"{result.speedup:.2f}x{between}"


def about_memory(info: ProbeInfo) -> str:
    """Says which memory a report shows."""
    if info.capped:
        return (
            f"Memory is what the allocator reserves at the peak, of the {format_bytes(info.target_bytes)} of the cap."
        )
    return f"Memory is all that the GPU holds at the peak, context included, of its {format_bytes(info.target_bytes)}."


def why_smaller(result: Analysis) -> str:
    """Says why a smaller batch than today's is recommended; an empty string if it is not smaller."""
    best, today = result.recommended, result.current_batch_size
    if best is None or result.smaller_because is None:
        return ""
    why = {
        "does_not_fit": f"{today} does not fit",
        "not_tried": f"{today} is more than --max-batch allowed to try",
        "thrashing": f"at {today} the allocator retries, or time per sample jumps",
        "margin": f"{today} leaves less than {100 * result.margin:g} % of the memory free",
        "uncertain": f"{today} is so near the predicted maximum that it may not fit",
        "as_fast": f"it is about as fast as {today}, with less memory",
    }[result.smaller_because]
    return f"Batch {best.batch_size} is recommended instead of today's {today}: {why}."


def within_time(trial: Trial) -> str:
    """Returns how far off a step's time may be: in percent if measured, as an interval if predicted."""
    if trial.intervals is None:
        return f" ± {100 * spread(trial):.2g} %"
    low, high = trial.intervals["step_seconds"]
    return f" ({format_rate(1e3 * low)} to {format_rate(1e3 * high)} ms)"


def within_rate(trial: Trial) -> str:
    """Returns how far off a speed may be: in percent if measured, as an interval if predicted."""
    between = rate_interval(trial)
    if between is None:
        return f" ± {100 * spread(trial):.2g} %"
    return f" ({format_rate(between[0])} to {format_rate(between[1])})"


def spread(trial: Trial) -> float:
    """Returns the relative spread of a step time: between measured steps, or of the predicted interval."""
    if trial.intervals is not None and trial.step_seconds:
        low, high = trial.intervals["step_seconds"]
        return (high - low) / 2 / trial.step_seconds
    return trial.step_seconds_spread or 0.0


def why_not_timed(result: Analysis) -> str:
    """Says why there is no number for today's batch."""
    return "does not fit" if result.max_is_exact else "was not tried"


def notes(result: Analysis) -> list[str]:
    """Returns what a reader of the numbers should know."""
    smaller = why_smaller(result)
    said = [
        *([smaller] if smaller else []),
        about_memory(result.info),
        SYNTHETIC,
        *training_notes(result.info, result.request.recipe),
        *several_notes(result.info, result.request.recipe, result.recommended or result.maximum),
        *offload_notes(result.info, result.request.recipe, result.recommended, result.maximum),
        *generated_notes(result.info, result.recommended, result.maximum),
        *generation_notes(result),
        *prediction_notes(result.info),
    ]
    if result.info.device_kind == "cpu":
        model = "a small stand-in of the model" if result.info.small else "the model"
        said.append(f"No GPU was used: {model} was trained on the CPU.")
    if result.thrashing:
        sizes = ", ".join(map(str, sorted(result.thrashing)))
        said.append(f"Thrashing at batch {sizes}: it trains, but the allocator retries or time per sample jumps.")
    if result.price is None and result.savings is None and not result.info.memory_only:
        said.append("No price is known for this device: give --price-per-hour to see savings.")
    return said


def training_notes(info: ProbeInfo, recipe: Recipe) -> list[str]:
    """Says how much of the model is trained, what experts assume, and how much optimizer state is in paged memory."""
    trained, said = info.trainable_parameters, []
    if trained is not None and trained != info.parameters:
        said.append(f"{trained:,} of {info.parameters:,} parameters are trained; the others are frozen.")
    said += _expert_notes(info, recipe)
    if info.paged_state_bytes:
        said.append(
            f"{format_bytes(info.paged_state_bytes)} of optimizer state are in paged memory, on the GPU while it has "
            "room and else on the host; they are not counted, nor is the time to move them."
        )
    return said


def offload_notes(info: ProbeInfo, recipe: Recipe, *trials: Trial | None) -> list[str]:
    """Says what these trials take of the host's memory, and what their predicted times assume of the host."""
    sizes = {one.batch_size: one.peak_host_bytes for one in trials if one is not None and one.fits}
    if recipe.offload == "none" or not sizes:
        return []
    taken = ", ".join(f"{format_bytes(size)} at batch {batch_size}" for batch_size, size in sorted(sizes.items()))
    take = "activations take" if recipe.offload == "activations" else "optimizer takes"
    said = f"The offloaded {take} up the host's memory, most of it pinned: {taken}."
    return [said, *offload_time_notes(info, recipe)]


def offload_time_notes(info: ProbeInfo, *recipes: Recipe) -> list[str]:
    """Says what predicted times of recipes that offload assume of the host."""
    offloaded, gpu = {recipe.offload for recipe in recipes} - {"none"}, info.gpu
    if not offloaded or info.source != "predicted" or gpu is None:
        return []
    rate = gpu.host_link_bytes_per_second / GIGA
    updates = ", and that updates there are bound by its memory" if "optimizer" in offloaded else ""
    return [
        f"No GPU has confirmed the time of offloading: it assumes {rate:g} GB/s between the {gpu.name} and its "
        f"host{updates}."
    ]


def _expert_notes(info: ProbeInfo, recipe: Recipe) -> list[str]:
    """Says what a mixture's numbers assume about its routing, and that its experts are not quantized."""
    said = []
    if info.routing_matters:
        said.append(
            "Tokens are assumed to be spread evenly over the experts; the upper ends of predicted memory hold even if "
            "nearly all go to the same ones."
        )
    elif info.experts and info.source == "predicted":
        said.append(
            f"Tokens go to {info.experts} experts: the memory is the same however they are spread, even if all go to "
            "the same ones; the time assumes that they are spread evenly."
        )
    if info.experts and recipe.weights in QUANTIZED:
        said.append(
            f"The experts are not quantized but in {info.experts_dtype}: bitsandbytes quantizes linear layers, and "
            "transformers keeps experts in stacked tensors."
        )
    return said


def generation_notes(result: Analysis) -> list[str]:
    """Says which precisions of the recipe the GPU does not support."""
    gpu, recipe = result.info.gpu, result.request.recipe
    if gpu is None or gpu.has_bf16:
        return []
    said = []
    if recipe.precision == "bf16":
        said.append(f"The {gpu.name} has no hardware support for bf16 and is slow with it: use --precision fp16.")
    if recipe.tf32:
        said.append(f"The {gpu.name} does not support TF32: --tf32 has no effect.")
    return said


def prediction_notes(info: ProbeInfo) -> list[str]:
    """Says how far to trust predicted numbers."""
    if info.source != "predicted":
        return []
    return predicted_notes(info.gpu, certain=info.certain, timed=info.timed, profile=info.gpu_profile)


def predicted_notes(
    gpu: GpuEntry | None, *, certain: bool, timed: bool, profile: str = "", speeds: bool = True
) -> list[str]:
    """Says how far to trust predictions for one GPU, or for all if ``None``: their memory, and ``speeds`` if shown."""
    off_by = _off_by(gpu, certain=certain, timed=timed, profile=profile, speeds=speeds)
    notes = [f"Predicted, nothing was run: {off_by} (docs/benchmarks.md)."]
    if gpu is not None and gpu.memory_only:
        notes.append(f"{MEMORY_ONLY} {gpu.name}, and no prediction was checked with ROCm.")
    if not certain:
        notes.append(UNCHECKED)
    elif not timed:
        notes.append(UNTIMED)
    return notes


def _off_by(gpu: GpuEntry | None, *, certain: bool, timed: bool, profile: str, speeds: bool) -> str:
    allocated, reserved = (100 * error * doubt(gpu, certain=certain) for error in (ALLOCATED_ERROR, RESERVED_ERROR))
    memory = f"allocated memory may be off by {allocated:g} %, reserved memory by {reserved:g} %"
    if gpu is not None and gpu.memory_only:
        return memory
    fastest, slowest = time_factors(gpu, timed=timed, calibrated=bool(profile))
    between = f"{1 / slowest:.1f} to {1 / fastest:.1f}"
    speed = f"; the true speed may be {between} times what is predicted" if speeds else ""
    if gpu is None:
        return f"{memory}{speed}, and less on an H200, where predictions were checked"
    if profile:
        return f"{memory}{speed}; times are corrected by a profile ({profile})"
    name = gpu.name.removeprefix("NVIDIA ")
    elsewhere = "" if gpu.id in MEASURED_GPUS else f"; memory was checked on an H200, not on the {name}"
    if knowledge_of(gpu) == "public":
        elsewhere += ", and times on what others published for it"
    return f"{memory}{speed}{elsewhere}"
