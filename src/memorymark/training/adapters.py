"""LoRA through peft: freezes a model's weights and trains small adapters beside its linear layers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.checks.nearest import did_you_mean, nearest
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import ALL_LINEAR, ATTENTION_ONLY, QUANTIZED, Recipe, target_names
from memorymark.suggestions import Proposal, meant, without
from memorymark.training.quantized_layers import StandInLinear4bit, StandInLinear8bit
from memorymark.training.quantizing import HEADS

ADAPTER = "default"
MOST_NAMED = 12


def add_adapters(model: nn.Module, recipe: Recipe) -> nn.Module:
    """Freezes the model and puts an adapter beside each layer that the recipe names.

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
    heads = [head for name in HEADS if isinstance(head := getattr(model, name, None), nn.Module)]
    in_heads = {module for head in heads for module in head.modules()}
    config = LoraConfig(
        r=recipe.lora,
        target_modules=_targets(model, recipe, in_heads),
        exclude_modules=_names(model, in_heads),
        use_dora=recipe.lora_variant == "dora",
        use_rslora=recipe.lora_variant == "rslora",
    )
    if any(isinstance(module, (StandInLinear4bit, StandInLinear8bit)) for module in model.modules()):
        config._register_custom_module(dict.fromkeys((StandInLinear4bit, StandInLinear8bit), _over_stand_ins()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft warns that GPT-2's layers are transposed
        model = inject_adapter_in_model(config, model, adapter_name=ADAPTER)
    for head in heads:
        head.requires_grad_(True)
    for parameter in model.parameters():
        if parameter.requires_grad:  # as get_peft_model does: an update in half precision would be rounded away
            parameter.data = parameter.data.float()
    return model


def _targets(model: nn.Module, recipe: Recipe, in_heads: set[nn.Module]) -> str | list[str]:
    """Returns the layers to adapt, as peft takes them; refuses names that no layer has."""
    linear = [name for name, module in model.named_modules() if _is_linear(module) and module not in in_heads]
    if not linear:
        raise UsageError(
            f"{type(model).__name__} has no linear layers for LoRA to adapt",
            hint=Message("drop {lora}"),
            code="not_applicable",
            field="lora",
            given=recipe.lora,
            proposals=[Proposal("without lora", {"lora": 0, **_of_adapters(recipe)})],
        )
    if recipe.lora_targets == ALL_LINEAR:
        return ALL_LINEAR
    if recipe.lora_targets == ATTENTION_ONLY:
        return _in_attention(model, linear)
    names = target_names(recipe.lora_targets)
    for name in names:
        if not any(f".{layer}".endswith(f".{name}") for layer in linear):
            raise _unknown_target(model, name, sorted({layer.rpartition(".")[2] for layer in linear}))
    return names


def _of_adapters(recipe: Recipe) -> dict[str, Any]:
    """Returns the options that make sense only with adapters, reset to their defaults if they are set."""
    usual = {name: getattr(Recipe(), name) for name in ("lora_targets", "lora_variant")}
    usual |= {"weights": "auto"} if recipe.weights in QUANTIZED else {}
    return {name: value for name, value in usual.items() if getattr(recipe, name) != value}


def _in_attention(model: nn.Module, linear: list[str]) -> list[str]:
    """Returns the projections of attention, whatever they are called: the linear layers inside of its modules."""
    attention = tuple(
        f"{name}." for name, module in model.named_modules() if "attention" in type(module).__name__.lower()
    )
    found = [name for name in linear if name.startswith(attention)]
    if not found:
        raise UsageError(
            Message("{model} has no attention for LoRA to adapt; drop {lora_targets}.", model=type(model).__name__),
            code="not_applicable",
            field="lora_targets",
            given=ATTENTION_ONLY,
            proposals=[without("lora_targets", usual=ALL_LINEAR)],
        )
    return found


def _unknown_target(model: nn.Module, name: str, layers: list[str]) -> UsageError:
    near = nearest(name, layers)
    more = ", ..." if len(layers) > MOST_NAMED else ""
    return UsageError(
        Message(
            "{model} has no linear layer {name!r}: {near}Its layers are {layers}.",
            model=type(model).__name__,
            name=name,
            near=did_you_mean(near),
            layers=", ".join(layers[:MOST_NAMED]) + more,
        ),
        code="unknown_choice",
        field="lora_targets",
        given=name,
        allowed=layers,
        proposals=meant("lora_targets", near),
    )


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _names(model: nn.Module, modules: set[nn.Module]) -> list[str] | None:
    return [name for name, module in model.named_modules() if module in modules] or None


def _over_stand_ins() -> type[nn.Module]:
    """Returns an adapter that computes beside a stand-in as peft's does beside a layer of bitsandbytes."""
    from peft.tuners.lora import Linear

    class OverStandIn(Linear):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.base_layer(x)
            if self.disable_adapters:
                return result
            if isinstance(self.base_layer, StandInLinear4bit):
                result = result.clone()
            dtype, converts = result.dtype, not torch.is_autocast_enabled()
            if converts:
                x = self._cast_input_dtype(x, self.lora_A[ADAPTER].weight.dtype)
            if ADAPTER in self.lora_variant:
                result = self.lora_variant[ADAPTER].forward(self, active_adapter=ADAPTER, x=x, result=result)
                return result.to(dtype) if converts else result
            output: Tensor = self.lora_B[ADAPTER](self.lora_A[ADAPTER](x)) * self.scaling[ADAPTER]
            return result + (output.to(dtype) if converts else output)

    return OverStandIn
