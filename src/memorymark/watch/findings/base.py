"""What all findings share: their form and their thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from memorymark.watch.gains import Gain, GainBasis
from memorymark.watch.observation import Observation

Kind = Literal[
    "out_of_memory",
    "data",
    "precision",
    "batch",
    "outputs",
    "host",
    "compile",
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
# From this speedup on a finding may be the headline.
WORTH_A_HEADLINE = 1.05


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

    ``speedup`` is the estimated gain in samples per second, by which findings are ranked; ``None`` if the training
    cannot go on without the change. ``speedup_interval`` is the least and the most, ``speedup_basis`` what the estimate
    rests on, ``gain`` the same in words.
    """

    kind: Kind
    headline: str
    title: str
    reason: str
    code: str = ""
    gain: str = ""
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    speedup_basis: GainBasis | None = None
    note: str = ""

    @property
    def is_small(self) -> bool:
        """Whether it is not worth a headline; the allocator's trouble may end a training."""
        return self.kind != "allocator" and self.speedup is not None and self.speedup < WORTH_A_HEADLINE


def gained(gain: Gain) -> dict[str, Any]:
    """Returns a finding's fields about its gain."""
    return {
        "gain": gain.text,
        "speedup": gain.speedup,
        "speedup_interval": (gain.low, gain.high),
        "speedup_basis": gain.basis,
    }


def is_low_precision(seen: Observation) -> bool:
    """Tells whether the training uses 16 bits."""
    model = seen.model
    return seen.autocast is not None or (model is not None and model.precision in ("bfloat16", "float16"))
