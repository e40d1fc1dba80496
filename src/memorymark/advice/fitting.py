"""Changes of a recipe that save memory, smallest first. Pure Python, no torch."""

from __future__ import annotations

from collections.abc import Iterable

from memorymark.question.change import Facts
from memorymark.question.changes import AMPERE, CHANGES, OFFLOADING
from memorymark.question.recipe import QUANTIZED
from memorymark.question.request import Request
from memorymark.results.family import FAMILY_IDS, FamilyId
from memorymark.results.probe_info import ProbeInfo

Ladder = tuple[tuple[str, ...], ...]
# These cost nothing and are part of each set of changes where they apply.
FREE = ("drop_outputs", "flash")
# Sets of changes that save memory, smallest first. The fused optimizer makes no temporary copies; "half" stands for the
# 16-bit precision that the GPU supports.
FITTING: Ladder = (
    ("drop_outputs",),
    ("fused",),
    ("fused", "checkpointing"),
    ("fused", "checkpointing", "in_backward"),
    ("half", "fused"),
    ("half", "fused", "checkpointing"),
    ("half", "fused", "checkpointing", "in_backward"),
    ("half", "checkpointing", "adamw8bit"),
    ("half", "checkpointing", "adafactor"),
    ("half", "fused", "checkpointing", "offload_activations"),
    ("half", "checkpointing", "offload_optimizer"),
    ("half", "bf16_weights", "checkpointing"),
    ("half", "bf16_weights", "adamw8bit"),
    ("half", "bf16_weights", "checkpointing", "adamw8bit"),
    ("lora",),
    ("lora", "half"),
    ("lora", "half", "checkpointing"),
    ("lora", "half", "int8", "checkpointing"),
    ("lora", "half", "nf4", "checkpointing"),
    ("lora", "half", "nf4", "checkpointing", "offload_activations"),
)
# For language models: what each family of fine-tuning changes of weights, precision and optimizer, the cheapest first,
# and what is then tried on top of it to save activations.
FAMILIES: dict[FamilyId, Ladder] = {
    "full": (
        ("fused",),
        ("half", "fused"),
        ("half", "adamw8bit"),
        ("bf16_weights", "fused"),
        ("bf16_weights", "adamw8bit"),
        ("bf16_weights", "adamw8bit", "in_backward"),
        ("bf16_weights", "paged_adamw8bit", "in_backward"),
        ("bf16_weights", "offload_optimizer"),
    ),
    "lora": (("lora", "half"),),
    "qlora": (("lora", "half", "nf4"),),
}
SAVING_ACTIVATIONS: Ladder = (
    (),
    ("chunked",),
    ("checkpointing",),
    ("chunked", "checkpointing"),
    ("chunked", "checkpointing", "offload_activations"),
)
HALVES, BF16_WEIGHTS = ("bf16", "fp16"), "bf16_weights"
# The most that a loss holds of a logit: in 16 and in 32 bits, its probabilities, and the gradients of each.
BYTES_OF_LOGIT = 20
# Changes that are worth it only where little else fits.
LAST_RESORTS = frozenset({"int8", "nf4", *OFFLOADING})
# Logits are large if those of one sample take this fraction of the memory in fp32: a step holds several copies.
LARGE_LOGITS = 0.01


def fitting_changes(request: Request, facts: Facts) -> list[tuple[str, ...]]:
    """Returns the sets of changes, by id, that apply and save memory, smallest first."""
    return _applied(FITTING, request, facts)


def fitting_steps(request: Request, facts: Facts) -> list[list[tuple[str, ...]]]:
    """Returns steps, each of which saves more memory than the one before; the last changes of a step save the most."""
    if not facts.language_model:
        return [[changes] for changes in fitting_changes(request, facts)]
    bases = (base for family in FAMILIES.values() for base in family)
    steps = (_applied(((*base, *saving) for saving in SAVING_ACTIVATIONS), request, facts) for base in bases)
    return [step for step in steps if step]


def changes_of_family(family: FamilyId, request: Request, facts: Facts) -> list[tuple[str, ...]]:
    """Returns the sets of changes that lead into one family of fine-tuning, the cheapest first."""
    rungs = ((*changes, *saving) for changes in FAMILIES[family] for saving in SAVING_ACTIVATIONS)
    return _applied(rungs, request, facts)


def families_from(request: Request, info: ProbeInfo) -> tuple[FamilyId, ...]:
    """Returns the families of fine-tuning, from today's on, each of which takes less memory than the one before.

    There are none for other models, nor where steps cannot be predicted.
    """
    recipe = request.recipe
    if not info.language_model or info.optimizer or info.source != "predicted":
        return ()
    adapted: FamilyId = "qlora" if recipe.kept_weights(info.weights_dtype) in QUANTIZED else "lora"
    first = adapted if recipe.lora else "full"
    return FAMILY_IDS[FAMILY_IDS.index(first) :]


def only_chunks(changes: tuple[str, ...], before: tuple[str, ...]) -> bool:
    """Tells whether changes add nothing to those before but a chunked loss, which saves no more than the logits."""
    return set(changes) - set(before) == {"chunked"} and set(before) < set(changes)


def logits_bytes(info: ProbeInfo) -> int:
    """Returns the most that the logits of one sample take, with all that is computed from them."""
    return BYTES_OF_LOGIT * info.vocabulary * info.sample_sizes.get("tokens", 0)


def _applied(ladder: Iterable[tuple[str, ...]], request: Request, facts: Facts) -> list[tuple[str, ...]]:
    found: dict[tuple[str, ...], None] = {}
    for wanted in ladder:
        named = [
            change for name in dict.fromkeys((*FREE, *wanted)) for change in (HALVES if name == "half" else (name,))
        ]
        changes = tuple(change for change in named if CHANGES[change].to(request, facts) is not None)
        # What is meant for half weights is of no use without them, as on a GPU that knows no bf16.
        is_meant = BF16_WEIGHTS not in wanted or BF16_WEIGHTS in changes or request.recipe.trains_half_weights
        if changes and is_meant and not set(changes) >= OFFLOADING:
            found[changes] = None
    return list(found)


def facts_of(info: ProbeInfo) -> Facts:
    """Returns the facts about the model and the GPU that changes depend on."""
    gpu, tokens = info.gpu, info.sample_sizes.get("tokens", 0)
    return Facts(
        capability=gpu.capability if gpu else (AMPERE if info.device_kind == "cuda" else None),
        tokens=tokens,
        convolves_images=info.convolves_images,
        own_optimizer=bool(info.optimizer),
        language_model=info.language_model,
        large_logits=4 * info.vocabulary * tokens > LARGE_LOGITS * info.capacity_bytes,
        packed=bool(info.mean_tokens),
    )
