"""The loss of a policy that learns from rewards of its own completions, as TRL's ``GRPOTrainer`` computes it.

A sample is one completion after its prompt. Its reward, less the mean of those of the same prompt, comes with it. As by
default in TRL, a completion is trained on once, right after it was generated, so the policy that generated it is
the one that is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from memorymark.training.log_probs import PARTS, log_probs
from memorymark.training.workload import Batch

# TRL's default: how far the ratio to the old policy may be from 1.
CLIP = 0.2
# How much the distance to the reference counts, if there is one; TRL's default is none.
BETA = 0.04
TEMPERATURE = 1.0
ADVANTAGES = "advantages"


def grpo_loss(
    model: Callable[..., Any],
    batch: Batch,
    reference: Callable[..., Any] | None = None,
    *,
    completion_tokens: int,
    keeps_logits: bool,
) -> Tensor:
    """Returns the clipped loss of completions, by token, with its penalty for leaving the reference if there is one.

    The reference runs before the model. ``keeps_logits`` says that models compute logits of the completions only.
    """
    texts = {name: batch[name] for name in ("input_ids", "attention_mask")}
    wanted = {"logits_to_keep": completion_tokens + 1} if keeps_logits else {}

    def of_completions(one: Callable[..., Any], *, is_policy: bool) -> Tensor:
        logits = one(**texts, **wanted, use_cache=False).logits.float()  # to which accelerate converts them
        logits = logits[:, :-1][:, -completion_tokens:]
        logits.div_(TEMPERATURE)
        found = log_probs(logits, texts["input_ids"][:, -completion_tokens:])
        if is_policy:
            _log_entropy(logits)
        return found

    theirs = None if reference is None else of_completions(reference, is_policy=False)
    own = of_completions(model, is_policy=True)
    advantages, counted = batch[ADVANTAGES].unsqueeze(1), texts["attention_mask"][:, -completion_tokens:]
    ratio = (own - own.detach()).exp()
    loss: Tensor = -torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    if theirs is not None:
        apart = theirs - own
        loss = loss + BETA * (apart.exp() - apart - 1)
    mean: Tensor = (loss * counted).sum() / counted.sum().clamp(min=1.0)
    return mean


@torch.no_grad()
def _log_entropy(logits: Tensor) -> None:
    """Computes the entropy of each token that TRL logs.

    TRL takes 128 tokens at a time; a number that follows from the batch cannot be predicted from two traces, so here it
    is a share of each completion. In the forward pass, neither is the peak.
    """
    for part in logits.split(-(-logits.shape[1] // PARTS), 1):
        scores = part.log_softmax(-1)
        -(scores.exp() * scores).sum(-1)
