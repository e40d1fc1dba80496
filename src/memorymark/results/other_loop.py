"""What the other way to write the training loop would change."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.documents import Document


@dataclass(frozen=True)
class OtherLoop(Document):
    """The largest batch of a loop that keeps the model's outputs through the backward pass, or that drops them.

    0 means that not even one sample fits.
    """

    keeps_outputs: bool
    max_batch_size: int
