"""Which trainings share a trace: what a recipe and a GPU mean to it. No torch."""

from __future__ import annotations

from dataclasses import replace

from memorymark.question.recipe import Recipe

# How many batches of an accumulating step are traced: all later ones are like the second.
TRACED_ACCUMULATION_STEPS = 2


def generation(capability: tuple[int, int]) -> str:
    """Returns the GPUs that share operators: ``before Ampere``, ``cuDNN attention`` or ``flash attention``."""
    if capability < (8, 0):
        return "before Ampere"
    return "cuDNN attention" if capability[0] in (9, 10) else "flash attention"


def as_traced(recipe: Recipe) -> Recipe:
    """Returns the recipe without what does not affect a trace.

    That is TF32, the allocator, what the loop does with the outputs, and further accumulation steps.
    """
    steps = min(recipe.accumulation_steps, TRACED_ACCUMULATION_STEPS)
    return replace(recipe, tf32=False, allocator="default", keep_outputs=False, accumulation_steps=steps)
