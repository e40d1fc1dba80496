"""How long the completions are that a model generates and is trained on. Pure, no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memorymark.catalog.tasks import prompt_tokens
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import Proposal, without

if TYPE_CHECKING:
    from memorymark.question.request import Request

# How many completions a prompt gets by default in TRL.
USUAL_COMPLETIONS = 8


def generated_completions(samples: int, completions: int) -> int:
    """Returns how many completions are generated for a step: its samples, rounded up to whole prompts."""
    return -(-samples // completions) * completions


def check_completions(request: Request) -> None:
    """Raises on completions that leave no room for a prompt, as far as the length of a sample is known."""
    if request.completion_tokens is not None and request.seq_len is not None:
        completion_tokens_of(request, request.seq_len)


def completion_tokens_of(request: Request, tokens: int) -> int:
    """Returns how many of a sample's tokens are the completion; raises if none are left for the prompt."""
    given = request.completion_tokens
    if given is None:
        return tokens - prompt_tokens(tokens)
    if given >= tokens:
        raise UsageError(
            Message(
                "{seq_len} counts the prompt and its completion, so {completion_tokens:{given}} must be less than "
                "{tokens}; use a longer {seq_len}.",
                given=given,
                tokens=tokens,
            ),
            code="out_of_range",
            field="completion_tokens",
            given=given,
            allowed={"minimum": 1, "below": tokens},
            proposals=[
                Proposal(f"prompts as long as completions: {2 * given} tokens", {"seq_len": 2 * given}),
                without("completion_tokens"),
            ],
        )
    return given
