"""A language model's cross entropy without its whole logits: a few positions at a time, gradients included.

The logits of a long text with a large vocabulary are often the largest tensor of a step. Liger's fused linear cross
entropy and torchtune's chunked losses never hold all of them; this is the same in plain PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, log_softmax, nll_loss, pad

from memorymark.training.workload import Batch

IGNORED = -100
# Fields of configs with which a model changes its logits before the loss.
CHANGES_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")


def chunked_loss(model: Any, batch: Batch) -> Tensor:
    """Returns the loss of a causal language model of transformers, computed in chunks."""
    head = model.get_output_embeddings()
    inputs = {argument: value for argument, value in batch.items() if argument != "labels"}
    hidden = model.base_model(**inputs).last_hidden_state
    labels = pad(batch["labels"], (0, 1), value=IGNORED)[:, 1:]  # each position predicts the next token
    loss: Tensor = _ChunkedCrossEntropy.apply(hidden, head.weight, head.bias, labels)  # type: ignore[no-untyped-call]
    return loss


def rescales_logits(config: Any) -> bool:
    """Tells whether models of a config change their logits before the loss, which is not done in chunks here."""
    return any(getattr(config, field, None) not in (None, 1) for field in CHANGES_LOGITS)


def chunk_count(words: int, width: int) -> int:
    """Returns how many chunks make the logits of one about as large as all hidden states, which is Liger's rule."""
    return -(-words // width)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The mean cross entropy of ``linear(hidden, weight, bias)``; the forward pass computes the gradients too."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight) if weight.requires_grad else None
        of_bias = torch.zeros_like(bias) if bias is not None and bias.requires_grad else None
        counted = (labels != IGNORED).sum()
        total = torch.zeros((), device=hidden.device)
        with torch.autocast(kind, enabled=False):
            matrix, shift = weight.to(dtype), None if bias is None else bias.to(dtype)
            places = hidden.shape[1]
            size = -(-places // min(chunk_count(*weight.shape), places))
            for start in range(0, places, size):
                part = hidden[:, start : start + size].to(dtype).flatten(0, 1)
                wanted = labels[:, start : start + size].flatten()
                scores = log_softmax(linear(part, matrix, shift), dim=-1, dtype=torch.float32)
                total += nll_loss(scores, wanted, reduction="sum", ignore_index=IGNORED)
                error = _errors(scores, wanted, counted).to(dtype)
                del scores
                of_part = (error @ matrix).view(hidden.shape[0], -1, hidden.shape[2])
                of_hidden[:, start : start + size] = of_part
                if of_weight is not None:
                    of_weight += error.T @ part
                if of_bias is not None:
                    of_bias += error.sum(0)
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        return total / counted

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [None if one is None else one.mul_(gradients[0]) for one in ctx.saved_tensors]
        return (*scaled, None)


def _errors(scores: Tensor, wanted: Tensor, counted: Tensor) -> Tensor:
    """Turns log-probabilities into the gradient of the mean loss with respect to the logits, in place."""
    counts = wanted != IGNORED
    errors = scores.exp_()
    errors.scatter_add_(1, wanted.clamp(min=0).unsqueeze(1), torch.full_like(errors[:, :1], -1.0))
    return errors.mul_((counts / counted).unsqueeze(1))
