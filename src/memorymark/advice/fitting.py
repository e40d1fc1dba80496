"""Changes of a recipe that save memory, smallest first. Pure Python, no torch."""

from __future__ import annotations

from memorymark.question.changes import AMPERE, CHANGES, Facts
from memorymark.question.request import Request
from memorymark.results.probe_info import ProbeInfo

# Sets of changes that save memory, smallest first; keeping only the loss costs nothing and is part of each. The fused
# optimizer makes no temporary copies; "half" stands for the 16-bit precision that the GPU supports.
FITTING = (
    ("drop_outputs",),
    ("fused",),
    ("fused", "checkpointing"),
    ("fused", "checkpointing", "in_backward"),
    ("half", "fused"),
    ("half", "fused", "checkpointing"),
    ("half", "fused", "checkpointing", "in_backward"),
    ("half", "checkpointing", "adamw8bit"),
    ("half", "checkpointing", "adafactor"),
    ("half", "bf16_weights", "checkpointing"),
    ("half", "bf16_weights", "adamw8bit"),
    ("half", "bf16_weights", "checkpointing", "adamw8bit"),
    ("lora",),
    ("lora", "half"),
    ("lora", "half", "checkpointing"),
    ("lora", "half", "int8", "checkpointing"),
    ("lora", "half", "nf4", "checkpointing"),
)
HALVES = ("bf16", "fp16")
# Changes that are worth it only where little else fits.
LAST_RESORTS = frozenset({"int8", "nf4"})


def fitting_changes(request: Request, facts: Facts) -> list[tuple[str, ...]]:
    """Returns the sets of changes, by id, that apply and save memory, smallest first."""
    found: dict[tuple[str, ...], None] = {}
    for wanted in FITTING:
        named = [
            change
            for name in dict.fromkeys(("drop_outputs", *wanted))
            for change in (HALVES if name == "half" else (name,))
        ]
        changes = tuple(change for change in named if CHANGES[change].to(request, facts) is not None)
        if changes:
            found[changes] = None
    return list(found)


def facts_of(info: ProbeInfo) -> Facts:
    """Returns the facts about the model and the GPU that changes depend on."""
    gpu = info.gpu
    return Facts(
        capability=gpu.capability if gpu else (AMPERE if info.device_kind == "cuda" else None),
        tokens=info.sample_sizes.get("tokens", 0),
        convolves_images=info.convolves_images,
        own_optimizer=bool(info.optimizer),
    )
