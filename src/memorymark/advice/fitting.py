"""Which changes of a recipe make room, from the least to the greatest. Pure, no torch."""

from __future__ import annotations

import re

from memorymark.advice.changes import AMPERE, CHANGES, Facts
from memorymark.probe import ProbeInfo
from memorymark.request import Request

# From the least change to the greatest: what makes room, alone and together. The fused optimizer makes no copies, and
# "half" is the 16-bit precision that the GPU is fast with.
FITTING = (
    ("fused",),
    ("fused", "checkpointing"),
    ("half", "fused"),
    ("half", "fused", "checkpointing"),
    ("half", "checkpointing", "adamw8bit"),
    ("half", "checkpointing", "adafactor"),
    ("lora",),
    ("lora", "half"),
    ("lora", "half", "checkpointing"),
)
HALVES = ("bf16", "fp16")


def fitting_changes(request: Request, facts: Facts) -> list[tuple[str, ...]]:
    """Sets of changes that apply and make room, by id, the least first."""
    found: dict[tuple[str, ...], None] = {}
    for wanted in FITTING:
        named = [change for name in wanted for change in (HALVES if name == "half" else (name,))]
        changes = tuple(change for change in named if CHANGES[change].to(request, facts) is not None)
        if changes:
            found[changes] = None
    return list(found)


def facts_of(info: ProbeInfo) -> Facts:
    """What a probe tells of the model and the GPU, as far as changes depend on it."""
    gpu = info.gpu
    tokens = re.search(r"(\d+) tokens", info.sample)
    return Facts(
        capability=gpu.capability if gpu else (AMPERE if info.device_kind == "cuda" else None),
        tokens=int(tokens[1]) if tokens else 0,
        is_image="pixels" in info.sample,
        own_optimizer=bool(info.optimizer),
    )
