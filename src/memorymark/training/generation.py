"""Generation in a training loop: the cache of keys and values that the model keeps for the completions it writes.

Trainers such as TRL's ``GRPOTrainer`` let the model generate a step's completions before it is trained on them. The
memory that takes is the cache: it is complete when the last token is written, and gone when training begins. A step
allocates that much and frees it again; no token is generated.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import nn

from memorymark.question.completions import generated_completions
from memorymark.training.outputs import tensors_inside


@dataclass(frozen=True)
class Generation:
    """What generating completions takes: ``cache`` are the bytes of each tensor that is kept for one of them.

    A prompt gets ``completions`` of them, which are generated together.
    """

    completions: int
    cache: tuple[int, ...]

    def held(self, samples: int) -> list[int]:
        """Returns the bytes of each tensor held at the end, one of which is just being copied to grow by a token."""
        count = generated_completions(samples, self.completions)
        sizes = [count * size for size in self.cache]
        return [*sizes, max(sizes)] if sizes else []

    def hold(self, samples: int, device: torch.device) -> None:
        """Holds that memory for a moment."""
        held = [torch.empty(size, dtype=torch.uint8, device=device) for size in self.held(samples)]
        del held


def cache_of(model: nn.Module, tokens: int, device: torch.device) -> tuple[int, ...]:
    """Returns the bytes of each tensor that the model caches for one text of this length.

    A forward pass shows them: some layers attend only to a window, and some cache other things than keys and values.
    """
    text = torch.ones(1, tokens, dtype=torch.long, device=device)
    is_training = model.training
    model.eval()  # with checkpointing, models cache nothing while they are trained
    try:
        with torch.no_grad():
            outputs = model(input_ids=text, attention_mask=torch.ones_like(text), use_cache=True, **_last_logits(model))
    finally:
        model.train(is_training)
    cached = {id(tensor): tensor for tensor in tensors_inside(getattr(outputs, "past_key_values", None))}
    return tuple(tensor.nbytes for tensor in cached.values() if tensor.dim() > 1)  # others are counters


def _last_logits(model: nn.Module) -> dict[str, Any]:
    """Returns the argument that keeps a model from computing logits of all positions."""
    return {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}
