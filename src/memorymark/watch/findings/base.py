"""What all findings share: their form and their thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memorymark.watch.observation import Observation

Kind = Literal[
    "out_of_memory",
    "data",
    "precision",
    "batch",
    "outputs",
    "host",
    "allocator",
    "optimizer",
    "channels_last",
    "checkpointing",
]

# Fractions of the step's time from which waiting is reported, and from which it limits the training.
WAITING_COUNTS, WAITING_RULES = 0.1, 0.3
# From this fraction on a GPU's memory counts as used.
MEMORY_USED = 0.7
STEPS_FOR_TIMES = 5


@dataclass(frozen=True)
class Estimate:
    """The largest batch that should fit, the recommended one that leaves room, and the basis of both.

    ``maximum_without_outputs`` is the largest batch of a loop that keeps only the loss, if that is clearly larger.
    """

    maximum: int
    recommended: int
    basis: str
    maximum_without_outputs: int | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to change: ``headline`` says what is wrong, ``title`` what to do, ``reason`` why, in numbers.

    ``gain`` is the most that the change can gain; ``weight`` ranks findings, the heaviest first.
    """

    kind: Kind
    headline: str
    title: str
    reason: str
    code: str = ""
    gain: str = ""
    note: str = ""
    weight: float = 0.0


def is_low_precision(seen: Observation) -> bool:
    """Tells whether the training uses 16 bits."""
    model = seen.model
    return seen.autocast is not None or (model is not None and model.precision in ("bfloat16", "float16"))
