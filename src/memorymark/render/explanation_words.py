"""The words of explanations, shared by all output formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memorymark.render.flags import flags
from memorymark.render.words import PARTS, prediction_notes, training_notes
from memorymark.results.explanation import AliveBlocks, Explanation, MemoryKind, ModuleMemory, RemovableThing
from memorymark.units import format_bytes

KINDS: dict[MemoryKind, str] = {
    "attention_scores": "attention scores",
    "attention": "attention",
    "mlp": "MLP",
    "residual": "residual stream",
    "norm": "norms",
    "embedding": "embeddings",
    "convolution": "convolutions",
    "linear": "other linear layers",
    "logits": "logits and loss",
    "rounding": "workspaces, rounding",
    "other": "other",
}
THINGS: dict[RemovableThing, tuple[str, str]] = {
    "logits": ("The logits, and what is computed from them, are", "logits"),
    "attention_scores": ("The scores of attention are", "scores"),
    "activations": ("Activations that wait for the backward pass are", "activations"),
    "optimizer_state": ("The optimizer's state is", "state"),
    "gradients": ("Gradients are", "gradients"),
}
ROWS_OF_MODULES = 18
# From the bottom: what lasts comes first, so that areas stay where they are.
STACK = (
    "weights_bytes",
    "optimizer_state_bytes",
    "gradient_buckets_bytes",
    "gradients_bytes",
    "gathered_parameters_bytes",
    "kv_cache_bytes",
    "activations_bytes",
    "temporaries_bytes",
)


def about_peak(result: Explanation) -> str:
    """Says when the peak is, and what runs then."""
    timeline = result.timeline
    phase = {"forward": "in the forward pass", "backward": "in the backward pass", "optimizer": "in the update"}.get(
        timeline.peak_phase, f"during {timeline.peak_phase}" if timeline.peak_phase else "where the step begins"
    )
    operation, module = timeline.operations[timeline.peak], timeline.modules[timeline.peak]
    runs = f", at {short_name(operation)}" if operation else ""
    where = f" in {module}" if module else ""
    return f"The peak, {format_bytes(timeline.peak_bytes)}, is {phase}{runs}{where}."


def about_removable(result: Explanation) -> str | None:
    """Names the largest thing that could go, and the option for that."""
    found = result.removable
    if found is None:
        return None
    what = THINGS[found.what][0]
    return (
        f"{what} {100 * found.share:.0f} % of the peak: with {flags(found.recipe)} it is "
        f"{format_bytes(found.peak_allocated_bytes)} instead of {format_bytes(result.timeline.peak_bytes)}."
    )


def explanation_notes(result: Explanation) -> list[str]:
    """Returns what a reader of the numbers should know."""
    return [
        "The areas are what tensors ask for, and are alive; what the allocator rounds up, and workspaces, are "
        f"{format_bytes(result.timeline.rounding_bytes)} on top, at the peak among the temporaries.",
        *training_notes(result.info, result.request.recipe),
        *prediction_notes(result.info),
    ]


def about_failure(result: Explanation) -> str | None:
    """Says that the batch does not fit, if so: the first thing to know."""
    if result.trial.fits or result.trial.failure is None:
        return None
    return f"Batch {result.trial.batch_size} does not fit: {result.trial.failure.message}."


def short_name(operation: str) -> str:
    """Returns an operation's name without its library and overload."""
    parts = operation.split(".")
    return parts[1] if len(parts) > 2 else operation


@dataclass(frozen=True)
class Row:
    """A line of the table of modules, or of the treemap."""

    path: str
    kind: MemoryKind | None
    count: int
    size_bytes: int
    share: float


def rows_of_modules(result: Explanation, most: int = ROWS_OF_MODULES) -> list[Row]:
    """Returns the largest modules, and a last row for all others; the shares add up to 1."""
    whole = result.timeline.peak_bytes
    shown = result.modules if len(result.modules) <= most else result.modules[: most - 1]
    rows = [Row(named(one), one.kind, one.count, one.total_bytes, one.total_bytes / whole) for one in shown]
    others = result.modules[len(shown) :]
    if others:
        rest = sum(one.total_bytes for one in others)
        rows.append(Row(f"{len(others)} others", None, 0, rest, rest / whole))
    return rows


def rows_of_kinds(result: Explanation) -> list[tuple[MemoryKind, int, float]]:
    """Returns the bytes at the peak by what they are for, with their share, the most first."""
    sizes: dict[MemoryKind, int] = {}
    for module in result.modules:
        sizes[module.kind] = sizes.get(module.kind, 0) + module.total_bytes
    whole = result.timeline.peak_bytes
    return [(kind, size, size / whole) for kind, size in sorted(sizes.items(), key=lambda one: -one[1])]


def named(module: ModuleMemory | AliveBlocks) -> str:
    """Returns the path of a module, or words for what has none."""
    if module.kind == "rounding":
        return "workspaces, rounding"
    return module.path or "the model itself"


def what_is_alive(blocks: AliveBlocks) -> str:
    """Says what equal blocks are: their shape or part, and the operation that made them."""
    shape = " x ".join(map(str, blocks.shape))
    return ", ".join(filter(None, (PARTS[blocks.part], short_name(blocks.operation), shape)))


def parts_at_peak(result: Explanation) -> Iterator[tuple[str, int]]:
    """Yields the parts at the peak with their bytes, as in the breakdown, the lowest area first."""
    timeline = result.timeline
    for part in STACK:
        size = timeline.parts[part][timeline.peak] if part in timeline.parts else 0
        size += timeline.rounding_bytes if part == "temporaries_bytes" else 0
        if size:
            yield part, size
