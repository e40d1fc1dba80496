"""The words of a report, whatever form it takes."""

from __future__ import annotations

from memorymark.analysis import Analysis
from memorymark.catalog import Price
from memorymark.comparison import Comparison
from memorymark.cost import Usage
from memorymark.prediction.uncertainty import ALLOCATED_ERROR, TIME_ERROR, doubt
from memorymark.probe import ProbeInfo
from memorymark.request import Request
from memorymark.trial import Trial
from memorymark.units import format_bytes

# A smaller speedup than this is within what measurements differ by.
WORTH_SAYING = 1.05
SYNTHETIC = "Batches are synthetic: speed and savings leave the data loader out and are upper bounds."
COMPARED = "max is the largest batch that trains, use the one worth using; $/million is for a million samples there."
SMALL = " (small stand-in)"
PARTS = {
    "weights_bytes": "weights",
    "gradients_bytes": "gradients",
    "optimizer_state_bytes": "optimizer state",
    "activations_bytes": "activations",
    "temporaries_bytes": "temporaries and workspaces",
    "allocator_slack_bytes": "allocator slack",
    "context_bytes": "CUDA context",
    "other_processes_bytes": "other processes",
}


def heading(request: Request, info: ProbeInfo, source: str) -> tuple[str, str]:
    """What was trained, and how, where and by what means."""
    model = request.entry.name + (SMALL if info.small else "")
    memory = f"capped to {format_bytes(info.capacity_bytes)}" if info.capped else format_bytes(info.total_bytes)
    parts = (info.sample, request.recipe.describe(info.optimizer), f"{info.device_name} {memory}", source)
    return model, " · ".join(filter(None, parts))


def comparison_heading(result: Comparison) -> tuple[str, str]:
    """The same of a training on every GPU."""
    info = result.info
    model = result.request.entry.name + (SMALL if info and info.small else "")
    recipe = result.request.recipe.describe(info.optimizer if info else "")
    return model, " · ".join(filter(None, (info.sample if info else "", recipe, "every GPU", "predicted")))


def about_maximum(result: Analysis) -> str:
    """What stops a larger batch, and how sure that is."""
    exact = {
        "memory": f"{result.max_batch_size + 1} runs out of memory",
        "limit": f"{result.max_batch_size + 1} exceeds a launch limit, not the memory",
        "caller": "as far as --max-batch allowed",
    }[result.limited_by]
    interval = result.max_batch_interval
    sure = f"; between {interval[0]} and {interval[1]}" if interval else ""
    ratio = f"{result.batch_ratio:,.0f}" if result.batch_ratio >= 1000 else f"{result.batch_ratio:.3g}"
    return f"{exact}; {ratio}x today's batch{sure}"


def about_recommended(result: Analysis) -> str:
    """How fast the batch worth using is, and how much faster than today's."""
    best = result.recommended
    if best is None:
        return f"no size keeps a margin of {100 * result.margin:g} %"
    within = f" ± {100 * spread(best):.0f} %" if result.source == "predicted" else ""
    return f"{best.samples_per_second or 0:,.1f} samples/s{within}, {_gain(result)}"


def about_savings(result: Analysis) -> tuple[str, str] | None:
    """What that saves, and at what price; ``None`` where it is nothing worth saying."""
    if result.savings is None or result.price is None or (result.speedup or 0.0) < WORTH_SAYING:
        return None
    saved = result.savings
    money = f"${saved.per_run_usd:,.2f} a run, ${saved.per_year_usd:,.0f} a year"
    return money, usage_in_words(result.price, result.usage)


def usage_in_words(price: Price, usage: Usage) -> str:
    """What savings are counted by: the price of an hour, and how much is trained."""
    each = f"{usage.hours_per_run:g} h a run, {usage.runs_per_year:g} runs a year"
    people = f", {usage.people} people" if usage.people > 1 else ""
    return f"at {price.describe()}; {each}{people}"


def _gain(result: Analysis) -> str:
    now, then = result.current, result.recommended
    if result.speedup is None or now is None or then is None:
        return f"nothing to compare with: today's batch {result.current_batch_size} {why_not_timed(result)}"
    if result.speedup < WORTH_SAYING:
        return "no faster than today: the batch size is not what slows you down"
    return f"{speedup_words(result)} faster than today, {result.source}"


def speedup_words(result: Analysis) -> str:
    """The speedup with what the true one should lie between; nothing where there is none."""
    if result.speedup is None or result.speedup_interval is None:
        return ""
    low, high = result.speedup_interval
    between = f" ({low:.2f} to {high:.2f})" if high - low >= 0.01 else ""
    return f"{result.speedup:.2f}x{between}"


def about_memory(info: ProbeInfo) -> str:
    """Which memory is meant where only one is shown."""
    if info.capped:
        return (
            f"Memory is what the allocator reserves at the peak, of the {format_bytes(info.target_bytes)} of the cap."
        )
    return f"Memory is all that the GPU holds at the peak, context included, of its {format_bytes(info.target_bytes)}."


def why_smaller(result: Analysis) -> str:
    """Why less than today's batch is recommended, in a sentence; nothing where it is not less."""
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
    return f"Batch {best.batch_size} is recommended and not today's {today}: {why}."


def spread(trial: Trial) -> float:
    """What a step time differs by: from one step to the next, or from the truth."""
    if trial.intervals is not None and trial.step_seconds:
        low, high = trial.intervals["step_seconds"]
        return (high - low) / 2 / trial.step_seconds
    return trial.step_seconds_spread or 0.0


def why_not_timed(result: Analysis) -> str:
    """Why there is no number for today's batch."""
    return "does not fit" if result.max_is_exact else "was not tried"


def notes(result: Analysis) -> list[str]:
    """What a reader of the numbers should know."""
    smaller = why_smaller(result)
    said = [
        *([smaller] if smaller else []),
        about_memory(result.info),
        SYNTHETIC,
        *training_notes(result.info),
        *generation_notes(result),
        *prediction_notes(result.info),
    ]
    if result.info.device_kind == "cpu":
        model = "a small stand-in of the model" if result.info.small else "the model"
        said.append(f"No GPU was used: {model} was really trained on the CPU.")
    if result.thrashing:
        sizes = ", ".join(map(str, sorted(result.thrashing)))
        said.append(f"Thrashing at batch {sizes}: it trains, but the allocator retries or time per sample jumps.")
    if result.price is None and result.savings is None:
        said.append("No price is known for this device: give --price-per-hour to see savings.")
    return said


def training_notes(info: ProbeInfo) -> list[str]:
    """How much of the model is trained, where that is not all of it."""
    trained = info.trainable_parameters
    if trained is None or trained == info.parameters:
        return []
    return [f"{trained:,} of {info.parameters:,} parameters are trained; the others are frozen."]


def generation_notes(result: Analysis) -> list[str]:
    """What the recipe asks for and GPUs of this generation do not have."""
    gpu, recipe = result.info.gpu, result.request.recipe
    if gpu is None or gpu.has_bf16:
        return []
    said = []
    if recipe.precision == "bf16":
        said.append(f"The {gpu.name} has no units for bf16 and is slow with it: take --precision fp16 there.")
    if recipe.tf32:
        said.append(f"The {gpu.name} knows no TF32: --tf32 changes nothing there.")
    return said


def prediction_notes(info: ProbeInfo | None) -> list[str]:
    """How far to trust numbers that were predicted."""
    if info is not None and info.source != "predicted":
        return []
    factor = doubt(info.gpu if info is not None else None, certain=not (info and info.unknown_operations))
    elsewhere = "; on an H200 by less" if factor > 1 else ""
    memory, speed = (f"{100 * error * factor:.0f} %" for error in (ALLOCATED_ERROR, TIME_ERROR))
    off = f"memory may be off by {memory}, speed by {speed}{elsewhere}"
    notes = [f"Predicted, nothing was run: {off} (docs/benchmarks.md)."]
    if info is not None and info.unknown_operations:
        names = ", ".join(name.removeprefix("aten.") for name in info.unknown_operations)
        notes.append(f"Less certain than usual, because these operations were never measured: {names}.")
    return notes
