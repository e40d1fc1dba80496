"""What can be changed about a training, and what each change costs. Pure, no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from memorymark.recipe import FUSED_OPTIMIZERS, Recipe
from memorymark.request import Request

LORA_RANK = 16
# Tensor cores know TF32 and bf16 from here on.
AMPERE = (8, 0)


@dataclass(frozen=True)
class Facts:
    """What decides which changes apply: the GPU's compute capability, ``None`` elsewhere, and what the model is.

    ``tokens`` is the length of a sample of text, 0 for others; ``own_optimizer`` is one that the recipe has no say in.
    """

    capability: tuple[int, int] | None
    tokens: int
    is_image: bool
    own_optimizer: bool


@dataclass(frozen=True)
class Change:
    """One change. ``level`` says how much of a training it changes: the lowest level is the least change.

    0 leaves every number as it was but for rounding and costs nothing, 1 costs time or patience, 2 changes the
    numerics, 3 what is learned, 4 what is seen of the data.
    """

    id: str
    title: str
    cost: str
    level: int
    applied: Callable[[Recipe, Facts], dict[str, Any] | None]

    def to(self, request: Request, facts: Facts) -> Request | None:
        """The request with the change; ``None`` where it does not apply, or is there already."""
        fields = self.applied(request.recipe, facts)
        return None if fields is None else replace(request, recipe=replace(request.recipe, **fields))


def _tf32(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    knows_it = facts.capability is not None and facts.capability >= AMPERE
    return {"tf32": True} if knows_it and recipe.precision == "fp32" and not recipe.tf32 else None


def _bf16(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    knows_it = facts.capability is None or facts.capability >= AMPERE
    return {"precision": "bf16", "tf32": False} if knows_it and recipe.precision == "fp32" else None


def _fp16(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    needs_it = facts.capability is not None and facts.capability < AMPERE
    return {"precision": "fp16"} if needs_it and recipe.precision != "fp16" else None


def _fused(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    is_new = recipe.optimizer in FUSED_OPTIMIZERS and not recipe.fused and not facts.own_optimizer
    return {"fused": True} if is_new else None


def _channels_last(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    return {"channels_last": True} if facts.is_image and not recipe.channels_last else None


def _sdpa(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return {"attention": "sdpa"} if recipe.attention == "eager" else None


def _compile(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return None if recipe.compile else {"compile": True}


def _checkpointing(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return None if recipe.gradient_checkpointing else {"gradient_checkpointing": True}


def _no_checkpointing(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return {"gradient_checkpointing": False} if recipe.gradient_checkpointing else None


def _adamw8bit(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    is_new = recipe.optimizer in ("adam", "adamw") and not facts.own_optimizer
    return {"optimizer": "adamw8bit", "fused": False} if is_new else None


def _adafactor(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    is_new = recipe.optimizer in ("adam", "adamw") and not facts.own_optimizer
    return {"optimizer": "adafactor", "fused": False} if is_new else None


def _lora(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    return {"lora": LORA_RANK} if not recipe.lora and not facts.own_optimizer else None


CHANGES: dict[str, Change] = {
    change.id: change
    for change in (
        Change(
            "tf32",
            "TF32",
            "Matrix products in fp32 keep 10 bits of the mantissa instead of 23; training is rarely any different.",
            2,
            _tf32,
        ),
        Change(
            "bf16",
            "bf16 autocast",
            "Products and activations keep 8 bits of precision; weights that are trained stay fp32. Rarely hurts: "
            "compare the loss of a short run.",
            2,
            _bf16,
        ),
        Change(
            "fp16",
            "fp16 autocast",
            "Products and activations in fp16, whose range is small: a GradScaler skips the steps that overflow. "
            "GPUs of this generation have no fast bf16. Compare the loss of a short run.",
            2,
            _fp16,
        ),
        Change("fused", "fused optimizer", "Nothing: the same update in fewer kernels.", 0, _fused),
        Change(
            "sdpa",
            "SDPA attention",
            "Nothing but rounding; attention weights can no longer be returned.",
            0,
            _sdpa,
        ),
        Change(
            "channels_last",
            "channels_last",
            "Nothing for convolutions; a layer that does not know the layout copies its input.",
            1,
            _channels_last,
        ),
        Change(
            "compile",
            "torch.compile",
            "The first step takes up to minutes, and again for every new shape; errors are harder to read.",
            1,
            _compile,
        ),
        Change(
            "checkpointing",
            "gradient checkpointing",
            "The forward pass runs twice: about a third more arithmetic for a step.",
            1,
            _checkpointing,
        ),
        Change(
            "no_checkpointing",
            "no gradient checkpointing",
            "Memory: what the forward pass computes is kept instead of being computed again.",
            1,
            _no_checkpointing,
        ),
        Change(
            "adamw8bit",
            "8-bit AdamW",
            "The optimizer's state is kept in 8 bits, in blocks with a scale each; rarely any different. Needs "
            "bitsandbytes.",
            2,
            _adamw8bit,
        ),
        Change(
            "adafactor",
            "Adafactor",
            "Another optimizer, which keeps sums of rows and columns instead of every second moment; it wants a "
            "learning rate of its own.",
            2,
            _adafactor,
        ),
        Change(
            "lora",
            f"LoRA rank {LORA_RANK}",
            "Only small adapters are trained beside frozen weights: less can be learned than by training all of them.",
            3,
            _lora,
        ),
        Change(
            "shorter",
            "shorter samples",
            "Samples are cut: the model never sees what comes after.",
            4,
            lambda _recipe, _facts: None,  # a length and no recipe: whoever tries it sets it
        ),
        Change(
            "batch",
            "another batch size",
            "Nothing if the effective batch is kept; else the learning rate must follow.",
            0,
            lambda _recipe, _facts: None,
        ),
    )
}


def apply_all(request: Request, ids: tuple[str, ...], facts: Facts) -> Request | None:
    """The request with several changes; ``None`` where one of them does not apply."""
    for change_id in ids:
        changed = CHANGES[change_id].to(request, facts)
        if changed is None:
            return None
        request = changed
    return request


def level_of(ids: tuple[str, ...]) -> tuple[int, int]:
    """How much changes in all: the highest level, then how many changes."""
    return max((CHANGES[change_id].level for change_id in ids), default=0), len(ids)
