"""The loss of a step: the model's own, or the mean of its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import without
from memorymark.training.workload import Batch


def mean_of_logits(model: Callable[..., Any], batch: Batch, name: str) -> Tensor:
    """Returns the mean of the logits, a loss for any transformers model."""
    if not isinstance(batch, Mapping):
        raise _no_mean(
            Message(
                "{loss:mean} needs a dict of arguments, and batch() of {name} returned a {kind}",
                name=name,
                kind=_kind(batch),
            )
        )
    output = model(**{argument: value for argument, value in batch.items() if argument != "labels"})
    logits: Tensor | None = getattr(output, "logits", None)
    if logits is None:
        raise _no_mean(
            Message(
                "{loss:mean} needs .logits, and the model of {name} returns a {kind} without them",
                name=name,
                kind=_kind(output),
            )
        )
    return logits.mean()


def _no_mean(what: Message) -> UsageError:
    usual = without("loss", "model")
    return UsageError(what, hint="drop it", code="not_applicable", field="loss", given="mean", proposals=[usual])


def own_loss(model: Callable[..., Any], batch: Batch, name: str) -> Tensor:
    """Returns the loss in a model's output, as transformers models have it."""
    if not isinstance(batch, Mapping):
        raise UsageError(
            f"batch() of {name} returned a {_kind(batch)}; without loss= it must return a dict of arguments.",
            code="bad_workload",
        )
    output = model(**batch)
    loss: Tensor | None = getattr(output, "loss", None)
    if loss is None:
        raise UsageError(
            f"the model of {name} returns a {_kind(output)} without .loss; pass loss=, a function of model and batch.",
            code="bad_workload",
        )
    return loss


def require_one_number(loss: Any, argument: str) -> None:
    """Refuses a loss that no backward pass can start from."""
    if not isinstance(loss, Tensor):
        raise UsageError(
            f"{argument} returned {_kind(loss)} as the loss; it must be a tensor with one number.", code="bad_workload"
        )
    if loss.numel() != 1:
        raise UsageError(
            f"{argument} returned a loss of shape {tuple(loss.shape)}; return one number, such as its .mean().",
            code="bad_workload",
        )
    if not loss.requires_grad:
        raise UsageError(
            f"{argument} returned a loss without gradients; compute it from the module's output, not under no_grad and "
            "not detached.",
            code="bad_workload",
        )


def _kind(value: Any) -> str:
    return type(value).__name__.removeprefix("Fake")  # a prediction runs on tensors without contents
