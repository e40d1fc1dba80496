"""Chooses how a model of transformers computes attention."""

from __future__ import annotations

from typing import Any

from torch import nn

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import Proposal, without
from memorymark.training.optimizers import name_of

FLASH_2, FLASH_3 = "flash_attention_2", "flash_attention_3"


def choose_attention(model: nn.Module, attention: str, *, to_trace: bool) -> None:
    """Sets the attention for the model and its parts, some of which have their own config.

    ``to_trace`` needs no flash-attn, because a trace calls a stand-in for it.
    """
    choosing = [module for module in model.modules() if hasattr(module, "set_attn_implementation")]
    if not choosing:
        raise _no_attention(f"{name_of(model)} has no choice of attention", attention)
    if attention == "flash" and to_trace:
        taking = list(map(_pretends_flash, choosing))
    else:
        name = _installed_flash(model) if attention == "flash" else attention
        taking = [_takes(module, name) for module in choosing]
    if not any(taking):
        raise _no_attention(f"{name_of(model)} has no {attention} attention", attention)


def _takes(module: Any, name: str) -> bool:
    try:
        module.set_attn_implementation(name)
    except ValueError:  # transformers raises for models that lack it; for some it only warns
        return False
    return bool(module.config._attn_implementation == name)


def _pretends_flash(module: Any) -> bool:
    """Sets FlashAttention 2 as transformers would if flash-attn were installed."""
    kernels = getattr(module, "_compatible_flash_implementations", None)
    if not (module._supports_flash_attn and module._can_set_attn_implementation()):
        return False
    if kernels is not None and FLASH_2 not in kernels:  # it needs kernels of its own, which are downloaded
        return False
    module.config._attn_implementation_internal = FLASH_2
    return True


def _installed_flash(model: nn.Module) -> str:
    """Returns transformers' name for the installed FlashAttention: 2, which predictions follow, or else 3."""
    from transformers.utils.import_utils import is_flash_attn_2_available, is_flash_attn_3_available

    if next((parameter.device.type for parameter in model.parameters()), "cpu") != "cuda":
        raise _no_flash("flash attention runs only on NVIDIA GPUs; choose one to predict for, or drop {attention}.")
    if is_flash_attn_2_available():
        return FLASH_2
    if is_flash_attn_3_available():
        return FLASH_3
    raise _no_flash(
        "flash attention needs flash-attn; run `pip install flash-attn`, or drop {attention}.",
        code="not_installed",
    )


def _no_flash(sentence: str, code: Any = "not_applicable") -> UsageError:
    return UsageError(Message(sentence), code=code, field="attention", given="flash", proposals=_others())


def _no_attention(what: str, attention: str) -> UsageError:
    return UsageError(
        what,
        hint=Message("drop {attention}"),
        code="not_applicable",
        field="attention",
        given=attention,
        proposals=_others(),
    )


def _others() -> list[Proposal]:
    return [without("attention", usual="auto")]
