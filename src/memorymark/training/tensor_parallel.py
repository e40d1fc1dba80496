"""Cuts the layers of a model over the GPUs of a tensor-parallel group, by the plan that transformers has for it."""

from __future__ import annotations

from typing import Any

from torch import nn

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import Recipe
from memorymark.suggestions import without

HEADS = ("num_attention_heads", "num_key_value_heads")


def cut_layers(model: nn.Module, recipe: Recipe, mesh: Any) -> None:
    """Leaves each GPU of the group its part of the layers, and adds what they send each other."""
    plan = getattr(model, "tp_plan", None)
    body = getattr(model, "base_model_prefix", "") or "model"
    if not plan or not any(name.startswith((f"{body}.layers.", "layers.")) for name in plan):
        raise _not_cut(
            Message(
                "transformers has no plan for cutting the layers of {name}",
                name=type(model).__name__,
            ),
            recipe,
            hint=Message("cut all weights with {strategy:fsdp}"),
        )
    apply = _of_transformers(recipe)
    _require_whole_heads(model, recipe)
    try:
        apply(model, mesh)
    except ValueError as error:  # what it would cut into parts of different sizes and gather again
        raise _uneven(model, recipe, str(error)) from None
    _require_even_parts(model, recipe)
    tie: Any = model.tie_weights
    tie(recompute_mapping=False)  # cutting parts weights that are one, and transformers' own loading joins them again


def is_cut(parameter: nn.Parameter) -> bool:
    """Tells whether several GPUs share a parameter."""
    return hasattr(parameter, "_local_tensor")


def _of_transformers(recipe: Recipe) -> Any:
    try:
        from transformers.distributed.tensor_parallel import apply_tensor_parallelism
    except ImportError:
        raise UsageError(
            "this version of transformers does not cut layers with torch's DTensor",
            hint=Message("upgrade transformers to 5.17 or later, or drop {tensor_parallel}"),
            code="not_installed",
            field="tensor_parallel",
            given=recipe.tensor_parallel,
            proposals=[without("tensor_parallel", usual=1)],
        ) from None
    return apply_tensor_parallelism


def _require_whole_heads(model: nn.Module, recipe: Recipe) -> None:
    """Refuses groups among which heads of attention cannot be divided."""
    config: Any = model.config
    config = config.get_text_config()
    for name in HEADS:
        heads = getattr(config, name, None)
        if isinstance(heads, int) and heads % recipe.tensor_parallel:
            raise _not_cut(
                Message(
                    "{model} has {heads} {kind}, which {given} GPUs cannot divide",
                    model=type(model).__name__,
                    heads=heads,
                    kind="heads of keys and values" if "key" in name else "heads of attention",
                    given=recipe.tensor_parallel,
                ),
                recipe,
                hint=Message("choose another {tensor_parallel}"),
            )


def _require_even_parts(model: nn.Module, recipe: Recipe) -> None:
    for name, parameter in model.named_parameters():
        if is_cut(parameter):
            cut: Any = parameter
            whole = {one.dim for one in cut.placements if one.is_shard()}
            if any(parameter.shape[dim] % recipe.tensor_parallel for dim in whole):
                raise _uneven(model, recipe, name)


def _uneven(model: nn.Module, recipe: Recipe, detail: str) -> UsageError:
    return _not_cut(
        Message(
            "{model} has layers whose size {given} GPUs cannot divide",
            model=type(model).__name__,
            given=recipe.tensor_parallel,
        ),
        recipe,
        hint=Message("choose another {tensor_parallel}"),
        detail=detail,
    )


def _not_cut(said: Message, recipe: Recipe, **about: Any) -> UsageError:
    return UsageError(
        said,
        code="not_applicable",
        field="tensor_parallel",
        given=recipe.tensor_parallel,
        proposals=[without("tensor_parallel", usual=1)],
        **about,
    )
