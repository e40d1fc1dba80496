"""Refuses recipes that cannot be measured on a device, or with the caller's own model."""

from __future__ import annotations

from typing import Any

from memorymark.devices import Device
from memorymark.errors import DoesNotFitError, Proposal, UsageError
from memorymark.messages import Message, as_message
from memorymark.question.recipe import Recipe
from memorymark.results.trial import Failure
from memorymark.suggestions import without

UNCOMPILED_FUNCTIONS = "pass the functions as they were before torch.compile"


def check_device(recipe: Recipe, device: Device) -> None:
    """Raises if the recipe cannot run on the device."""
    if recipe.gpus > 1 and device.kind != "cuda":
        raise UsageError(
            Message("one of several {gpus} is measured on a CUDA GPU; predict for one with {gpu:h100}."),
            code="not_applicable",
            field="gpus",
            given=recipe.gpus,
            proposals=[Proposal("predict for h100", {"device": None, "gpu": "h100"})],
        )
    if recipe.compile and device.kind != "cuda":
        dropped = without("compile", usual=False)
        raise not_compiled_on(device, Message("drop {compile}"), field="compile", given=True, proposals=[dropped])
    if recipe.offload != "none" and device.kind == "mps":
        raise UsageError(
            f"the {device.name} shares the host's memory, so nothing can be offloaded",
            hint=Message("drop {offload}"),
            code="not_applicable",
            field="offload",
            given=recipe.offload,
            proposals=[without("offload", usual="none")],
        )


def not_compiled_on(device: Device, instead: str | Message = UNCOMPILED_FUNCTIONS, **about: Any) -> UsageError:
    """Returns the error for compiled code on a device that counts memory operation by operation."""
    return UsageError(
        f"torch.compile cannot be measured on the {device.name}, where memory is counted operation by operation",
        hint=Message("use a CUDA GPU, or {instead}", instead=as_message(instead)),
        code="not_applicable",
        **about,
    )


def check_own_model(recipe: Recipe) -> None:
    """Raises if the recipe would change the layers or the weights of the caller's own model."""
    if recipe.gpus > 1:
        raise UsageError(
            Message("your own module is not spread over several {gpus}; make a Workload of it, or drop that option."),
            code="not_applicable",
            field="gpus",
            given=recipe.gpus,
            proposals=[without("gpus", usual=1)],
        )
    if recipe.lora:
        raise UsageError(
            Message("LoRA adapters are not added to your own module; add them yourself and drop {lora}."),
            code="not_applicable",
            field="lora",
            given=recipe.lora,
            proposals=[without("lora", usual=0)],
        )
    if recipe.weights != "auto":
        raise UsageError(
            Message("your own module keeps the types of its weights; cast them yourself and drop {weights}."),
            code="not_applicable",
            field="weights",
            given=recipe.weights,
            proposals=[without("weights", usual="auto")],
        )


def does_not_fit(batch_size: int, failure: Failure) -> DoesNotFitError:
    """Returns the error for a batch size whose steps cannot be looked at because they do not fit."""
    return DoesNotFitError(
        f"batch {batch_size} does not fit ({failure.message})",
        failure.shortfall_bytes,
        hint=Message("use a smaller {batch_size}"),
        field="batch_size",
        given=batch_size,
    )
