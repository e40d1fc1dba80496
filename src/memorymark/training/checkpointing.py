"""Gradient checkpointing: the backward pass computes the blocks of a model again, or the cheap part of each.

Selective checkpointing keeps what is expensive to compute for its size, by the rule that torchtitan uses: the results
of fused attention and of every second matrix product of a block. All else is computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import Recipe
from memorymark.suggestions import without
from memorymark.training.optimizers import name_of

# The products of linear layers. Those of unfused attention (bmm) are quadratic in the length and cheap to repeat.
PRODUCTS = frozenset({"aten::mm", "aten::addmm"})
FUSED_ATTENTION = (
    "aten::_scaled_dot_product_",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "flash_attn::_flash_attn_",
    "flash_attn_3::",
)


def checkpoint_blocks(model: nn.Module, recipe: Recipe) -> None:
    """Lets the model's blocks be computed again in the backward pass, as the recipe says."""
    enable = getattr(model, "gradient_checkpointing_enable", None)
    if enable is None or not getattr(model, "supports_gradient_checkpointing", True):
        raise UsageError(
            f"{name_of(model)} has no gradient checkpointing",
            hint=Message("drop {gradient_checkpointing}"),
            code="not_applicable",
            field="gradient_checkpointing",
            given=recipe.gradient_checkpointing,
            proposals=[without("gradient_checkpointing", usual="none")],
        )
    if recipe.gradient_checkpointing == "selective":
        enable(gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": keep_expensive})
    else:
        enable()
    if recipe.lora and (let_gradients_in := getattr(model, "enable_input_require_grads", None)) is not None:
        let_gradients_in()  # else a block with frozen inputs and weights would not be recomputed


def keep_expensive() -> tuple[Any, Any]:
    """Returns the contexts in which one block runs, first and again, so that its expensive results are kept."""
    return create_selective_checkpoint_contexts(_new_policy())  # type: ignore[no-any-return]


def _new_policy() -> Callable[..., CheckpointPolicy]:
    products: Counter[bool] = Counter()

    def policy(context: Any, operation: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        name = _name(operation)
        if name in PRODUCTS:
            products[context.is_recompute] += 1
            keeps = products[context.is_recompute] % 2 == 1
        else:
            keeps = name.startswith(FUSED_ATTENTION)
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


@cache
def _name(operation: Any) -> str:
    return str(operation._schema.name)
