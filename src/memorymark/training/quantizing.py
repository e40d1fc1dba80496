"""Quantizes the linear layers of a model as transformers and peft do before adapters are trained over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.errors import UsageError
from memorymark.question.quantization import Quantization
from memorymark.training.quantized_layers import OUTLIERS, StandInLinear4bit, StandInLinear8bit
from memorymark.training.weights import cast_weights

# The heads of classifiers: new for every task, so they are trained in full and not quantized.
HEADS = ("score", "classifier")
# LLM.int8 copies each column of an input that holds an outlier. Trained models have a handful of these. With random
# weights, most columns of a gated layer's output hold one, unless the weights are smaller than usual.
QUIET = 0.25


def quantize(model: nn.Module, quantization: Quantization, dtype: torch.dtype, device: torch.device | None) -> None:
    """Quantizes the linear layers on a device, or replaces them by stand-ins if that is ``None``.

    The output layer, heads and layers that share their weights stay as they are. What is not quantized is cast to fp32,
    as peft's ``prepare_model_for_kbit_training`` does.
    """
    kept = _kept(model, quantization)
    for name, module in list(model.named_modules()):
        if (type(module) is nn.Linear or type(module).__name__ == "Conv1D") and module not in kept:
            new = (
                _stand_in(module, quantization, dtype) if device is None else _real(module, quantization, dtype, device)
            )
            model.set_submodule(name, new)
    cast_weights(model, torch.float32)
    if quantization.weights == "nf4":
        _cast_biases(model, dtype)
    setattr(model, "is_loaded_in_4bit" if quantization.weights == "nf4" else "is_loaded_in_8bit", True)  # for peft


def scales_of(model: nn.Module) -> Iterator[Tensor]:
    """Yields what bitsandbytes keeps beside quantized weights and outside of parameters and buffers."""
    for module in model.modules():
        weight, state = getattr(module, "weight", None), getattr(module, "state", None)
        four_bit = getattr(weight, "quant_state", None)
        nested = getattr(four_bit, "state2", None)
        found = [getattr(four_bit, name, None) for name in ("absmax", "code", "offset")]
        found += [getattr(nested, name, None) for name in ("absmax", "code")]
        found += [getattr(weight, "SCB", None), getattr(state, "SCB", None)]
        yield from (tensor for tensor in found if isinstance(tensor, Tensor))


def _cast_biases(model: nn.Module, dtype: torch.dtype) -> None:
    """Casts the biases of quantized layers to the compute type, as bitsandbytes does when it first computes them."""
    for layer in model.modules():
        if hasattr(layer, "compute_dtype") and isinstance(getattr(layer, "bias", None), nn.Parameter):
            layer.bias.data = layer.bias.data.to(dtype)


def _kept(model: nn.Module, quantization: Quantization) -> set[nn.Module]:
    """Returns the modules that transformers does not quantize."""
    named = dict(model.named_modules())
    shared = Counter(id(p) for module in named.values() for p in module._parameters.values() if p is not None)
    kept = {module for module in named.values() if any(shared[id(p)] > 1 for p in module.parameters(recurse=False))}
    owner_of_last = next(reversed(dict(model.named_parameters())), "").rpartition(".")[0]
    skipped = {*HEADS, owner_of_last, *quantization.skipped, *(getattr(model, "_keep_in_fp32_modules", None) or ())}
    kept |= {module for name, module in named.items() if any(f".{skip}." in f".{name}." for skip in skipped)}
    output = getattr(model, "get_output_embeddings", lambda: None)()
    return kept | ({output} if isinstance(output, nn.Module) else set())


def _shape(module: Any) -> tuple[int, int]:
    """Returns a layer's outputs and inputs; Conv1D, which GPT-2 has, stores them the other way around."""
    rows, columns = module.weight.shape
    return (rows, columns) if isinstance(module, nn.Linear) else (columns, rows)


def _stand_in(module: nn.Module, quantization: Quantization, dtype: torch.dtype) -> nn.Module:
    if quantization.weights == "int8":
        return StandInLinear8bit(module, _shape(module))
    return StandInLinear4bit(module, _shape(module), dtype, nested=quantization.double)


def _real(module: Any, quantization: Quantization, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """Returns bitsandbytes' layer, which quantizes its weights as it moves to the device."""
    try:
        from bitsandbytes import nn as layers
    except ImportError:
        raise UsageError(
            f"{quantization.weights} weights need bitsandbytes; run `pip install bitsandbytes`.",
            code="not_installed",
            field="weights",
            given=quantization.weights,
        ) from None
    rows, columns = _shape(module)
    weight = module.weight.data if isinstance(module, nn.Linear) else module.weight.data.t()
    new: Any
    if quantization.weights == "int8":
        weight = weight * QUIET
        new = layers.Linear8bitLt(columns, rows, bias=False, has_fp16_weights=False, threshold=OUTLIERS, device="meta")
        new.weight = layers.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
    else:
        double = quantization.double
        new = layers.Linear4bit(
            columns, rows, False, dtype, compress_statistics=double, quant_type="nf4", device="meta"
        )
        new.weight = layers.Params4bit(
            weight, requires_grad=False, compress_statistics=double, quant_type="nf4", module=new
        )
    new.bias = module.bias
    moved: nn.Module = new.to(device)
    return moved
