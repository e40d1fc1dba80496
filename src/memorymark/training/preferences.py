"""Losses of language models that learn which of two texts is preferred, as TRL's trainers compute them.

A batch holds all preferred texts before all rejected ones; both run in one forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from memorymark.catalog.tasks import prompt_tokens
from memorymark.training.log_probs import log_probs
from memorymark.training.workload import Batch

# TRL's default: how much a difference between the model and the reference counts.
BETA = 0.1
PRECOMPUTED = "reference_log_probs"


def reward_loss(model: Callable[..., Any], batch: Batch) -> Tensor:
    """Returns the Bradley-Terry loss of a reward model, that of ``RewardTrainer``."""
    preferred, rejected = model(**batch, use_cache=False).logits.squeeze(-1).chunk(2)
    return -logsigmoid(preferred - rejected).mean()


def dpo_loss(model: Callable[..., Any], batch: Batch, reference: Callable[..., Any] | None = None) -> Tensor:
    """Returns the sigmoid loss of answers, that of ``DPOTrainer``.

    The reference runs after the model, while all that the model keeps for the backward pass is there. Without a
    reference, what it computed comes with the batch, as with ``precompute_ref_log_probs``.
    """
    texts = {name: batch[name] for name in ("input_ids", "attention_mask")}
    logits = _logits(model, texts)
    own = _of_answers(logits, texts["input_ids"])
    if reference is None:
        theirs = batch[PRECOMPUTED]
    else:
        their_logits = _logits(reference, texts)  # TRL too drops them only when the loss is returned
        theirs = _of_answers(their_logits, texts["input_ids"])
    preferred, rejected = (own - theirs).chunk(2)
    loss = -logsigmoid(BETA * (preferred - rejected)).mean()
    _log(logits.detach())
    return loss


def with_reference_log_probs(make: Callable[[int, torch.device], Batch]) -> Callable[[int, torch.device], Batch]:
    """Adds the log-probability of each text's answer under the reference to batches of pairs."""

    def batch(size: int, device: torch.device) -> Batch:
        made = make(size, device)
        return {**made, PRECOMPUTED: -torch.rand(len(made["input_ids"]), device=device)}

    return batch


def _logits(model: Callable[..., Any], texts: Batch) -> Tensor:
    """Returns the logits that predict each next token, in fp32, to which accelerate converts what a model returns."""
    logits: Tensor = model(**texts, use_cache=False).logits
    return logits.float()[:, :-1]


def _of_answers(logits: Tensor, words: Tensor) -> Tensor:
    first = prompt_tokens(words.shape[1]) - 1
    return log_probs(logits, words[:, 1:])[:, first:].sum(1)


def _log(logits: Tensor) -> None:
    """Takes the memory of the metrics that TRL logs: a copy of the logits of preferred answers."""
    first = prompt_tokens(logits.shape[1] + 1) - 1
    logits[: len(logits) // 2, first:].clone()
