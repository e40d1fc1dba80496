"""The types that weights are kept in: as built, in 16 bits, or quantized under adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from memorymark.question.quantization import Quantization
from memorymark.question.recipe import QUANTIZED, Recipe
from memorymark.training.workload import Workload

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def kept_dtype(recipe: Recipe, quantization: Quantization | None) -> torch.dtype | None:
    """Returns the type in which weights are loaded, or ``None`` to leave them as the model makes them.

    What is not quantized in a quantized model is kept in the type that it computes in.
    """
    return DTYPES[recipe.precision] if quantization is not None else DTYPES.get(recipe.kept_weights(""))


def quantization_for(workload: Workload, recipe: Recipe) -> Quantization | None:
    """Returns how weights are quantized, as the recipe or else the workload says."""
    own = workload.quantization
    if own is not None and recipe.kept_weights(own.weights) == own.weights:
        return own
    return Quantization(recipe.weights) if recipe.weights in QUANTIZED else None  # type: ignore[arg-type]


@contextmanager
def made_in(dtype: torch.dtype | None) -> Iterator[None]:
    """Inside the context, weights without a type of their own are made in this one."""
    before = torch.get_default_dtype()
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def cast_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Casts the floating-point parameters that are not of this type yet."""
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.dtype != dtype:
            parameter.data = parameter.data.to(dtype)


def count_weights(parameter: nn.Parameter) -> int:
    """Returns how many weights a parameter holds: 4-bit ones are packed, two to a byte."""
    return parameter.numel() * (2 if parameter.dtype == torch.uint8 else 1)
