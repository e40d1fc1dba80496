"""Which trainings can pack samples into rows. Pure, no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import NEXT_TOKEN, TASKS
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import Proposal, without

if TYPE_CHECKING:
    from memorymark.question.request import Request

# A row holds this many samples of mean length, unless the caller says how long they are.
USUAL_SAMPLES = 4


def check_packing(request: Request) -> None:
    """Raises on packing where it cannot apply; what depends on the model's config is checked once that is known."""
    if not request.packed:
        if request.mean_tokens is not None:
            raise UsageError(
                Message("{mean_tokens} is for packing; add {packed:True}, or drop it."),
                code="not_applicable",
                field="mean_tokens",
                given=request.mean_tokens,
                proposals=[Proposal("packed", {"packed": True}), without("mean_tokens")],
            )
        return
    name, entry = request.name, request.name.entry
    if name.kind in ("factory", "timm"):
        raise cannot_pack("{packed} does not apply to {model}, whose batches are not made of texts", request)
    if entry is not None and (task := request.task or entry.task) not in NEXT_TOKEN:
        raise only_next_token(request, task)
    if request.seq_len is not None:
        check_mean(request, request.seq_len)


def only_next_token(request: Request, task: str) -> UsageError:
    """Returns the error for a task whose samples are not packed."""
    return cannot_pack(
        "{packed} is for causal language models, and {model} is trained for {task}", request, task=TASKS[task].title
    )


def cannot_pack(what: str, request: Request, **values: Any) -> UsageError:
    """Returns the error for a training whose samples cannot be packed."""
    return UsageError(
        Message(what, model=request.entry.id, **values),
        hint="drop it",
        code="not_applicable",
        field="packed",
        given=True,
        proposals=[Proposal("without packing", {"packed": False, "mean_tokens": None})],
    )


def check_mean(request: Request, row_tokens: int) -> None:
    """Raises if samples would be longer than a row on average."""
    mean = request.mean_tokens
    if mean is not None and mean > row_tokens:
        raise UsageError(
            Message(
                "no sample is longer than a row of {row} tokens, so {mean_tokens:{mean}} cannot be the mean; use less, "
                "or a longer {seq_len}.",
                row=row_tokens,
                mean=mean,
            ),
            code="out_of_range",
            field="mean_tokens",
            given=mean,
            allowed={"minimum": 1, "maximum": row_tokens},
            proposals=[Proposal(f"rows of {mean} tokens", {"seq_len": mean}), without("mean_tokens")],
        )


def mean_tokens_of(request: Request, row_tokens: int) -> int:
    """Returns the mean length of the samples in a row, 0 if they are not packed."""
    if not request.packed:
        return 0
    return request.mean_tokens or max(row_tokens // USUAL_SAMPLES, 1)
