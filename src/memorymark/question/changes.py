"""What can be changed about a training, and what each change costs. Pure, no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memorymark.question.change import Change, Facts
from memorymark.question.recipe import FUSED_OPTIMIZERS, LORA_RANK, QUANTIZED, Recipe
from memorymark.question.recipe_choices import Optimizer
from memorymark.question.request import Request
from memorymark.question.sharing_changes import SHARING

# Changes that run only where bitsandbytes is installed.
NEED_BITSANDBYTES = frozenset({"adamw8bit", "paged_adamw8bit", "int8", "nf4"})
# Changes that take up the host's memory instead of the GPU's; a recipe has one of them at most.
OFFLOADING = frozenset({"offload_activations", "offload_optimizer"})
# The first compute capability with TF32 and bf16.
AMPERE = (8, 0)


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
    return {"fused": True, "optimizer_variant": "auto"} if is_new else None


def _channels_last(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    return {"channels_last": True} if facts.convolves_images and not recipe.channels_last else None


def _sdpa(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return {"attention": "sdpa"} if recipe.attention == "eager" else None


def _flash(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    """Only packed rows need it: other texts get fused attention from SDPA too."""
    knows_it = facts.capability is not None and facts.capability >= AMPERE
    is_new = recipe.attention != "flash" and (recipe.half_precision or recipe.weights in ("bf16", "fp16"))
    return {"attention": "flash"} if facts.packed and knows_it and is_new else None


def _drop_outputs(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return {"keep_outputs": False} if recipe.keep_outputs else None


def _compile(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return None if recipe.compile else {"compile": True}


def _checkpointing(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return None if recipe.gradient_checkpointing == "full" else {"gradient_checkpointing": "full"}


def _selective_checkpointing(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return {"gradient_checkpointing": "selective"} if recipe.gradient_checkpointing == "none" else None


def _no_checkpointing(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
    return None if recipe.gradient_checkpointing == "none" else {"gradient_checkpointing": "none"}


def _chunked(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    return {"loss": "chunked"} if recipe.loss == "model" and facts.large_logits and not recipe.compile else None


def _instead_of(optimizer: Optimizer, *others: Optimizer) -> Callable[[Recipe, Facts], dict[str, Any] | None]:
    def applied(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
        is_new = recipe.optimizer in others and not facts.own_optimizer
        return {"optimizer": optimizer, "fused": False, "optimizer_variant": "auto"} if is_new else None

    return applied


def _in_backward(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    saves = recipe.optimizer != "none" and not (recipe.lora or recipe.optimizer_in_backward or facts.own_optimizer)
    allowed = recipe.accumulation_steps == 1 and recipe.precision != "fp16"
    return {"optimizer_in_backward": True} if saves and allowed else None


def _offload_activations(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    is_new = recipe.offload == "none" and not recipe.compile
    return {"offload": "activations"} if is_new and facts.capability is not None else None


def _offload_optimizer(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    """Only where all weights are trained: the state of adapters is small."""
    saves = recipe.optimizer in FUSED_OPTIMIZERS and not (recipe.lora or facts.own_optimizer)
    allowed = recipe.accumulation_steps == 1 and recipe.precision != "fp16" and not recipe.optimizer_in_backward
    is_new = recipe.offload == "none" and not recipe.compile and facts.capability is not None
    if not (saves and allowed and is_new):
        return None
    return {"offload": "optimizer", "fused": False, "optimizer_variant": "auto"}


def _bf16_weights(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    knows_it = facts.capability is None or facts.capability >= AMPERE
    is_new = recipe.kept_weights("fp32") == "fp32" and not recipe.lora and recipe.precision != "fp16"
    return {"weights": "bf16", "tf32": False} if knows_it and is_new else None


def _quantized(weights: str) -> Callable[[Recipe, Facts], dict[str, Any] | None]:
    def applied(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
        is_new = recipe.weights not in QUANTIZED and not facts.own_optimizer
        return {"weights": weights, "lora": recipe.lora or LORA_RANK} if is_new else None

    return applied


def _lora(recipe: Recipe, facts: Facts) -> dict[str, Any] | None:
    is_new = not recipe.lora and not facts.own_optimizer
    return {"lora": LORA_RANK, "weights": "auto"} if is_new else None


CHANGES: dict[str, Change] = {
    change.id: change
    for change in (
        *SHARING,
        Change(
            "tf32",
            "TF32",
            "Matrix products in fp32 keep 10 bits of the mantissa instead of 23; training is rarely affected.",
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
            "drop_outputs",
            "keep only the loss",
            "Nothing: the model's outputs are freed before the backward pass. Read what you log from them first.",
            0,
            _drop_outputs,
        ),
        Change(
            "sdpa",
            "SDPA attention",
            "Nothing but rounding; attention weights can no longer be returned.",
            0,
            _sdpa,
        ),
        Change(
            "flash",
            "flash attention",
            "Nothing but rounding: samples in a row are kept apart without a mask. Needs flash-attn.",
            0,
            _flash,
        ),
        Change(
            "channels_last",
            "channels_last",
            "Nothing for convolutions; a layer that does not support the layout copies its input.",
            1,
            _channels_last,
        ),
        Change(
            "compile",
            "torch.compile",
            "Compiling takes up to minutes, in the first step and for every new shape; errors are harder to read.",
            1,
            _compile,
        ),
        Change(
            "checkpointing",
            "gradient checkpointing",
            "The forward pass runs twice: about a third more computation per step.",
            1,
            _checkpointing,
        ),
        Change(
            "selective_checkpointing",
            "selective checkpointing",
            "The cheap half of the forward pass runs twice; results of attention and of every second matrix product "
            "are kept.",
            1,
            _selective_checkpointing,
        ),
        Change(
            "chunked",
            "chunked loss",
            "Nothing but rounding, and a little time: logits are computed in chunks, and the model returns none.",
            1,
            _chunked,
        ),
        Change(
            "no_checkpointing",
            "no gradient checkpointing",
            "Memory: activations are kept instead of being recomputed.",
            1,
            _no_checkpointing,
        ),
        Change(
            "in_backward",
            "optimizer in the backward pass",
            "Each weight is updated as soon as its gradient is ready, so gradients can neither be accumulated nor "
            "clipped by their norm.",
            1,
            _in_backward,
        ),
        Change(
            "offload_activations",
            "offloaded activations",
            "What the backward pass needs waits in the host's memory, most of it pinned: steps are slower where "
            "copying takes longer than computing.",
            1,
            _offload_activations,
        ),
        Change(
            "offload_optimizer",
            "offloaded optimizer",
            "Weights are updated in the host's memory, where the optimizer's state is: gradients and weights are "
            "copied in every step, and gradients can neither be accumulated nor clipped by their norm. The code needs "
            "torchao.",
            1,
            _offload_optimizer,
        ),
        Change(
            "adamw8bit",
            "8-bit AdamW",
            "The optimizer's state is kept in 8 bits, with a scale per block; training is rarely affected. Needs "
            "bitsandbytes.",
            2,
            _instead_of("adamw8bit", "adam", "adamw"),
        ),
        Change(
            "paged_adamw8bit",
            "paged 8-bit AdamW",
            "The optimizer's state is kept in 8 bits, and moves to the host's memory where the GPU's is full, which "
            "slows its steps. Needs bitsandbytes and that much free host memory.",
            2,
            _instead_of("paged-adamw8bit", "adam", "adamw", "adamw8bit"),
        ),
        Change(
            "adafactor",
            "Adafactor",
            "A different optimizer, which keeps sums of rows and columns instead of every second moment; it needs a "
            "different learning rate.",
            2,
            _instead_of("adafactor", "adam", "adamw"),
        ),
        Change(
            "bf16_weights",
            "bf16 weights",
            "Weights, gradients and optimizer state keep 8 bits of precision, so updates below about 1/256 of a weight "
            "are rounded away. Compare the loss of a short run, and use a larger learning rate if it stalls.",
            2,
            _bf16_weights,
        ),
        Change(
            "lora",
            f"LoRA rank {LORA_RANK}",
            "Only small adapters are trained and the weights are frozen, so the model can learn less.",
            3,
            _lora,
        ),
        Change(
            "int8",
            "8-bit frozen weights",
            "Frozen weights are rounded to 8 bits (LLM.int8), which rarely hurts, and steps take longer. Needs "
            "bitsandbytes.",
            3,
            _quantized("int8"),
        ),
        Change(
            "nf4",
            "4-bit frozen weights (QLoRA)",
            "Frozen weights are rounded to 4 bits, so the model starts slightly worse, and every product dequantizes "
            "them first. Needs bitsandbytes.",
            3,
            _quantized("nf4"),
        ),
        Change(
            "shorter",
            "shorter samples",
            "Samples are cut: the model never sees what comes after.",
            4,
            lambda _recipe, _facts: None,  # changes the length, not the recipe; the caller sets it
        ),
        Change(
            "batch",
            "another batch size",
            "Nothing if the effective batch stays the same; otherwise adjust the learning rate.",
            0,
            lambda _recipe, _facts: None,
        ),
    )
}


def apply_all(request: Request, ids: tuple[str, ...], facts: Facts) -> Request | None:
    """Returns the request with several changes, or ``None`` if one of them does not apply."""
    for change_id in ids:
        changed = CHANGES[change_id].to(request, facts)
        if changed is None:
            return None
        request = changed
    return request


def level_of(ids: tuple[str, ...]) -> tuple[int, int]:
    """Returns how far-reaching several changes are: the highest level, then their number."""
    return max((CHANGES[change_id].level for change_id in ids), default=0), len(ids)
