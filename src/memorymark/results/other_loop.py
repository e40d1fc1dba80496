"""What the other way to write the training loop would change."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.documents import Document


@dataclass(frozen=True)
class OtherLoop(Document):
    """The largest batch of a loop that keeps the model's outputs through the backward pass, or that drops them."""

    keeps_outputs: bool
    """Whether that loop keeps the outputs."""
    max_batch_size: int
    """The largest batch that trains with it; 0 if not even one sample fits."""
