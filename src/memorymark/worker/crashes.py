"""Decides whether a crash in a worker was caused by the request or by this program."""

from __future__ import annotations

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.request import Request
from memorymark.suggestions import without

# What models raise for image sizes that they do not support.
OF_A_WRONG_SIZE = (RuntimeError, ValueError, AssertionError, ArithmeticError)


def first_line(error: Exception) -> str:
    """Returns the type of an exception and the first line of its message."""
    said = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *said[:1]])


def blamed(crash: Exception, asked: Request) -> UsageError | None:
    """Returns an error that names the option to blame if a model's first step crashed without a CUDA error.

    The culprit is a requested image size, or a config from outside the catalog. Returns ``None`` if neither was given.
    """
    if "CUDA" in str(crash):  # not every torch, nor every library of CUDA, raises a type of its own
        return None
    said, side = first_line(crash).rstrip("."), asked.image_size
    if side is not None and isinstance(crash, OF_A_WRONG_SIZE):
        return UsageError(
            Message(
                "choose another {image_size}; {model} cannot be trained on images of {side} x {side} pixels.",
                model=asked.entry.id,
                side=side,
            ),
            code="out_of_range",
            field="image_size",
            given=side,
            proposals=[without("image_size")],
            detail=said,
        )
    if asked.name.kind in ("config", "hub", "path") and not asked.trust_remote_code:
        return UsageError(
            f"the config of {asked.entry.id} describes a model that does not run; compare it with a config.json that "
            "works.",
            code="bad_config",
            field="config" if asked.name.kind == "config" else "model",
            detail=said,
        )
    return None
