"""What a config.json says about how its weights are quantized. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import LORA_RANK, Recipe
from memorymark.suggestions import Proposal

# Where configs say it; the second is an older name of compressed-tensors.
FIELDS = ("quantization_config", "compression_config")
BITSANDBYTES = "bitsandbytes"


@dataclass(frozen=True)
class Quantization:
    """How frozen weights are quantized.

    ``double`` says that the scales of 4-bit weights are quantized too, as in QLoRA. ``skipped`` are names of layers
    that stay in 16 bits besides those that always do.
    """

    weights: Literal["int8", "nf4"]
    double: bool = True
    skipped: tuple[str, ...] = ()


def quantization_of(config: dict[str, Any], name: str, recipe: Recipe) -> Quantization | None:
    """Returns how a config's weights are quantized, ``None`` if they are not or if the recipe sets another type.

    Raises if they cannot be trained so: the recipe must have adapters, and only bitsandbytes is supported.
    """
    given = next((config[field] for field in FIELDS if isinstance(config.get(field), dict)), None)
    if given is None:
        return None
    found = _of_bitsandbytes(given)
    if recipe.weights != "auto":
        return found if found is not None and found.weights == recipe.weights else None
    if found is None:
        raise _not_supported(name, _method(given))
    if not recipe.lora:
        raise _needs_adapters(name, found)
    return found


def _of_bitsandbytes(given: dict[str, Any]) -> Quantization | None:
    if _method(given).lower() != BITSANDBYTES:
        return None
    skipped = given.get("llm_int8_skip_modules")
    names = tuple(name for name in skipped if isinstance(name, str)) if isinstance(skipped, list) else ()
    if given.get("load_in_8bit"):
        return Quantization("int8", skipped=names)
    if given.get("load_in_4bit"):
        return Quantization("nf4", double=bool(given.get("bnb_4bit_use_double_quant")), skipped=names)
    return None


def _method(given: dict[str, Any]) -> str:
    """Returns the name of the method; old configs of bitsandbytes have none."""
    is_old = "load_in_4bit" in given or "load_in_8bit" in given
    named = given.get("quant_method") or (BITSANDBYTES if is_old else "an unnamed method")
    return str(named)[:40]


def _not_supported(name: str, method: str) -> UsageError:
    return UsageError(
        Message(
            "{name} is quantized with {method}, which cannot be trained here; use {weights:bf16} to train it "
            "unquantized, or {weights:nf4} with {lora:{rank}} for QLoRA.",
            name=name,
            method=method,
            rank=LORA_RANK,
        ),
        code="not_applicable",
        field="weights",
        given="auto",
        proposals=[
            Proposal("bf16 weights", {"weights": "bf16"}),
            Proposal("QLoRA", {"weights": "nf4", "lora": LORA_RANK}),
        ],
    )


def _needs_adapters(name: str, found: Quantization) -> UsageError:
    bits = {"int8": 8, "nf4": 4}[found.weights]
    return UsageError(
        Message(
            "{name} is quantized to {bits} bits, and such weights cannot be trained; add {lora:{rank}} to train "
            "adapters, or use {weights:bf16} to train it unquantized.",
            name=name,
            bits=bits,
            rank=LORA_RANK,
        ),
        code="not_applicable",
        field="lora",
        given=0,
        proposals=[
            Proposal(f"LoRA rank {LORA_RANK}", {"lora": LORA_RANK}),
            Proposal("bf16 weights", {"weights": "bf16"}),
        ],
    )
