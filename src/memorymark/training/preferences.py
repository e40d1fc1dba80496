"""Losses of language models that learn which of two texts is preferred, as TRL's trainers compute them.

A batch holds all preferred texts before all rejected ones; both run in one forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn.functional import logsigmoid

from memorymark.training.workload import Batch


def reward_loss(model: Callable[..., Any], batch: Batch) -> Tensor:
    """Returns the Bradley-Terry loss of a reward model, that of ``RewardTrainer``."""
    preferred, rejected = model(**batch, use_cache=False).logits.squeeze(-1).chunk(2)
    return -logsigmoid(preferred - rejected).mean()
