"""Today's training, as advice compares it. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from memorymark.documents import ADDED_LATER, Document
from memorymark.results.cost import WholeRun
from memorymark.results.trial import Trial


@dataclass(frozen=True)
class Today(Document):
    """Trials of today's training; null if it was not tried, or does not fit."""

    predicted: Trial | None
    """The predicted trial."""
    measured: Trial | None
    """The measured trial."""
    usd_per_million_samples: float | None
    """Dollars for a million samples; null without a price or a speed."""
    whole_run: WholeRun | None = field(default=None, metadata=ADDED_LATER)
    """The run that the question describes, trained as today; null if it describes none."""
