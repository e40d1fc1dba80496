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
    """Returns the loss in a model's output: its ``.loss``, ``["loss"]``, or its only single number."""
    output = _called(model, batch)
    loss: Tensor | None = _loss_in(output)
    if loss is None:
        raise UsageError(
            f"the model of {name} returns a {_kind(output)} without .loss; pass loss=, a function of model and batch.",
            code="bad_workload",
        )
    return loss


def _called(model: Callable[..., Any], batch: Batch) -> Any:
    """Calls a model with a batch: keyword arguments, positional ones, a pair of both, or one tensor."""
    if isinstance(batch, Mapping) and all(isinstance(name, str) for name in batch):
        return model(**batch)
    if not isinstance(batch, (list, tuple)):
        return model(batch)
    if len(batch) == 2 and isinstance(batch[0], (list, tuple)) and isinstance(batch[1], Mapping):
        return model(*batch[0], **batch[1])
    return model(*batch)


def _loss_in(output: Any) -> Any:
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is not None:
        return loss
    parts = output if isinstance(output, (list, tuple)) else [output]
    numbers = [part for part in parts if isinstance(part, Tensor) and part.numel() == 1 and part.requires_grad]
    return numbers[0] if len(numbers) == 1 else None


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
