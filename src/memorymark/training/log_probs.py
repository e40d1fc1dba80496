"""Log-probabilities of tokens from whole logits, with the memory that TRL's trainers take for them.

TRL loops over the texts of a batch, so that only one text's temporaries live at a time. A loop as long as the batch
cannot be predicted from two traces, so here the first text is computed as its loop does and the others in place: the
peak is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# A text is computed in this many parts, so that the forward pass's temporaries are never the peak.
PARTS = 8


def log_probs(logits: Tensor, words: Tensor) -> Tensor:
    """Returns the log-probability of each of ``words`` under the logits at its place."""
    chosen = logits.gather(-1, words.unsqueeze(-1)).squeeze(-1)
    total: Tensor = _LogSumExp.apply(logits)  # type: ignore[no-untyped-call]
    return chosen - total


class _LogSumExp(torch.autograd.Function):
    """``logits.logsumexp(-1)`` of texts x places x words."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        size = -(-logits.shape[1] // PARTS)
        total = torch.cat([part.logsumexp(-1) for part in logits.split(size, 1)], 1)
        ctx.save_for_backward(logits, total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        logits, total = ctx.saved_tensors
        total, of_total = total.unsqueeze(-1), gradients[0].unsqueeze(-1)
        of_logits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        of_logits[:1] = (logits[:1] - total[:1]).exp().mul_(of_total[:1])
        of_logits[1:].copy_(logits[1:]).sub_(total[1:]).exp_().mul_(of_total[1:])
        return of_logits
