"""Builds the model that a step trains: with weights of the recipe's type, and with adapters if it trains those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn

from memorymark.errors import UsageError
from memorymark.question.recipe import Recipe
from memorymark.training.adapters import add_adapters
from memorymark.training.blame import blaming
from memorymark.training.quantizing import quantize
from memorymark.training.repeated_values import RepeatedValues
from memorymark.training.weights import cast_weights, count_weights, kept_dtype, made_in, quantization_for
from memorymark.training.workload import Workload

SHORT_DTYPES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float64: "fp64",
    torch.int8: "int8",
    torch.uint8: "nf4",
}


def build_model(workload: Workload, recipe: Recipe, *, to_trace: bool = False) -> nn.Module:
    """Builds the model on torch's default device.

    Quantized layers need the device's kernels; ``to_trace`` replaces them by stand-ins. Their weights are made on the
    host and quantized layer by layer, since together they may exceed the device's memory.
    """
    device, quantization = torch.get_default_device(), quantization_for(workload, recipe)
    dtype, on_host = kept_dtype(recipe, quantization), quantization is not None and not to_trace
    with made_in(dtype), _on_host() if on_host else nullcontext(), blaming("build="):
        model = workload.build()
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"build= returned {type(model).__name__}, not a torch.nn.Module; return the model.", code="bad_workload"
        )
    if dtype is not None:
        cast_weights(model, dtype)
        if quantization is not None:
            quantize(model, quantization, dtype, None if to_trace else device)
    return add_adapters(model, recipe) if recipe.lora else model


@contextmanager
def _on_host() -> Iterator[None]:
    with torch.device("cpu"), RepeatedValues():  # type: ignore[no-untyped-call]
        yield


def build_on(device: torch.device, workload: Workload, recipe: Recipe) -> nn.Module:
    """Builds the model fast on the device, and lays it out in memory as ``model.to(device)`` does.

    Initializing random weights takes seconds on a CPU and no time on a GPU, but there it leaves gaps between them that
    a model built on the CPU and moved does not have. So the model is moved through the host once, except for quantized
    weights, which are made there.
    """
    with device:
        model = build_model(workload, recipe)
    if device.type == "cuda":
        if quantization_for(workload, recipe) is None:
            model = model.cpu()
        torch.cuda.empty_cache()
    return model.to(device)


def weights_dtype(model: nn.Module) -> str:
    """Returns the type of the weights, or of most of them if they differ; empty if there are none."""
    counts: Counter[torch.dtype] = Counter()
    for parameter in model.parameters():
        counts[parameter.dtype] += count_weights(parameter)
    if not counts:
        return ""
    return short_dtype(counts.most_common(1)[0][0])


def short_dtype(dtype: torch.dtype) -> str:
    """Returns the name of a type of weights as options spell it."""
    return SHORT_DTYPES.get(dtype, str(dtype).removeprefix("torch."))
