"""The shape rule of torch's own CTC loss, whose table of paths is as wide as the longest text is long."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing.values import known

aten = torch.ops.aten


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,  # noqa: ARG001 - the operator's signature
    target_lengths: Any,
    blank: int = 0,  # noqa: ARG001
    zero_infinity: bool = False,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    """Returns the losses of a batch, and for each sample and moment the likelihood of each letter and gap."""
    batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
    longest = targets.shape[1] if targets.dim() == 2 else _longest(target_lengths)
    losses, paths = log_probs.new_empty(batch), log_probs.new_empty(batch, log_probs.shape[0], 2 * longest + 1)
    return (losses, paths) if log_probs.dim() == 3 else (losses[0], paths[0])


def _longest(lengths: Any) -> int:
    values = known(lengths) if isinstance(lengths, Tensor) else torch.tensor(lengths)
    if values is None:
        raise CannotPredictError("the lengths of a CTC loss's texts are known only to a run; measure it on a GPU.")
    with torch._C._DisableTorchDispatch():
        return int(values.max())


SHAPE_RULES = {aten._ctc_loss.Tensor: ctc_loss, aten._ctc_loss.default: ctc_loss}
