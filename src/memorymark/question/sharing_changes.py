"""What can be changed about how several GPUs share the work, and what each change costs. Pure, no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memorymark.question.change import Change, Facts
from memorymark.question.recipe import Recipe
from memorymark.question.recipe_choices import Strategy

# How many GPUs may share each layer: all of a usual machine at most.
DEGREES = (2, 4, 8)


def _strategy(name: Strategy) -> Callable[[Recipe, Facts], dict[str, Any] | None]:
    def applied(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
        is_new = recipe.gpus > 1 and (recipe.strategy, recipe.tensor_parallel) != (name, 1)
        possible = name != "hsdp" or 1 < recipe.nodes < recipe.gpus
        return {"strategy": name, "tensor_parallel": 1} if is_new and possible else None

    return applied


def _sharing_layers(degree: int) -> Callable[[Recipe, Facts], dict[str, Any] | None]:
    def applied(recipe: Recipe, _: Facts) -> dict[str, Any] | None:
        possible = recipe.gpus > 1 and recipe.gpus_per_node % degree == 0
        is_new = recipe.tensor_parallel != degree
        return {"strategy": "auto", "tensor_parallel": degree} if possible and is_new else None

    return applied


SHARING = (
    Change("ddp", "DDP", "Each GPU has the whole model; its gradients are added to the others'.", 1, _strategy("ddp")),
    Change(
        "zero1",
        "ZeRO-1",
        "Each GPU updates its share of the weights and sends it to the others, which wait.",
        1,
        _strategy("zero1"),
    ),
    Change(
        "zero2",
        "ZeRO-2",
        "Each GPU keeps a part of the weights; gathered ones stay until the backward pass has used them.",
        1,
        _strategy("zero2"),
    ),
    Change(
        "fsdp",
        "FSDP",
        "Each GPU keeps a part of the weights; blocks are gathered twice a step, mostly while others compute.",
        1,
        _strategy("fsdp"),
    ),
    Change(
        "hsdp",
        "HSDP",
        "Each machine keeps all weights, in parts; less is sent between machines than with FSDP.",
        1,
        _strategy("hsdp"),
    ),
    *(
        Change(
            f"tensor_parallel_{degree}",
            f"tensor parallel over {degree}",
            f"{degree} GPUs share each layer and each batch, and wait for each other in every layer.",
            1,
            _sharing_layers(degree),
        )
        for degree in DEGREES
    ),
)
