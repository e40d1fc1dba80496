"""LoRA through peft: freezes a model's weights and trains small adapters beside its linear layers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import Recipe
from memorymark.suggestions import without

# The heads of classifiers: new for every task, so peft trains them fully, and so do we.
HEADS = ("score", "classifier")
FROZEN_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@contextmanager
def frozen_weights_as_loaded(recipe: Recipe) -> Iterator[None]:
    """Inside the context, a model is built with weights in the type in which users load a frozen base.

    Frozen weights need no precision for their updates, so with bf16 or fp16 they are loaded in that type, which
    halves them. Without LoRA, weights are trained and stay in fp32.
    """
    dtype = FROZEN_DTYPES.get(recipe.precision) if recipe.lora else None
    if dtype is None:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def add_adapters(model: nn.Module, recipe: Recipe) -> nn.Module:
    """Freezes the model and puts an adapter beside every linear layer but the output layer (peft's "all-linear").

    Adapters are in fp32, as peft makes them, even beside weights of a smaller type. The head of a classifier is new,
    so it is trained fully.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UsageError(
            "LoRA needs peft, which is not installed; run `pip install memorymark[lora]`.",
            code="not_installed",
            field="lora",
            given=recipe.lora,
        ) from None
    dtype = FROZEN_DTYPES.get(recipe.precision)
    for parameter in model.parameters():
        if dtype is not None and parameter.dtype == torch.float32:  # built with a type of its own, or kept so
            parameter.data = parameter.data.to(dtype)
    heads = [head for name in HEADS if isinstance(head := getattr(model, name, None), nn.Module)]
    in_heads = {module for head in heads for module in head.modules()}
    if not any(_is_linear(module) for module in model.modules() if module not in in_heads):
        raise UsageError(
            f"{type(model).__name__} has no linear layers for LoRA to adapt",
            hint=Message("drop {lora}"),
            code="not_applicable",
            field="lora",
            given=recipe.lora,
            proposals=[without("lora", usual=0)],
        )
    config = LoraConfig(r=recipe.lora, target_modules="all-linear", exclude_modules=_names(model, in_heads))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft warns that GPT-2's layers are transposed
        model = inject_adapter_in_model(config, model)
    for head in heads:
        head.requires_grad_(True)
    for parameter in model.parameters():
        if parameter.requires_grad:  # as get_peft_model does: an update in half precision would be rounded away
            parameter.data = parameter.data.float()
    return model


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _names(model: nn.Module, modules: set[nn.Module]) -> list[str] | None:
    return [name for name, module in model.named_modules() if module in modules] or None
