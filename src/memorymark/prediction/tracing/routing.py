"""Which experts tokens go to. Only a run knows, so a trace assumes it.

A model that looks up the tokens of each expert has tensors as large as the router's choice makes them. Products over
rows sorted by expert need none of this: their sizes do not depend on it.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

Routing = Literal["even", "worst"]
"""``even``: each expert gets as many tokens. ``worst``: all get one, and the same few get all of the others."""

# An operation with more choices than this is not a router.
MOST_EXPERTS = 1024
_CHOOSERS = {torch.ops.aten.topk.default, torch.ops.aten.max.dim, torch.ops.aten.argmax.default}


def chosen(func: Any, inputs: list[Tensor], result: Any) -> Tensor | None:
    """Returns the choices that an operation makes among the last dimension's few values; ``None`` if it makes none."""
    if func not in _CHOOSERS or not inputs[0].dim():
        return None
    choices = result if isinstance(result, Tensor) else result[1]
    others = inputs[0].shape[:-1]
    chooses_last = choices.shape[: len(others)] == others and choices.dim() - len(others) in (0, 1)
    return choices if chooses_last and inputs[0].shape[-1] <= MOST_EXPERTS else None


def assumed(choices: Tensor, scores: Tensor, routing: Routing) -> Tensor:
    """Returns values for the choices that a router makes by its scores; a token's choices differ."""
    experts, each = scores.shape[-1], choices.numel() // max(scores.numel() // scores.shape[-1], 1)
    places = torch.arange(choices.numel())
    spread = places % experts
    if routing == "worst":
        spread = torch.where(places < experts + each, spread, places % each)
    return spread.view(choices.shape)
