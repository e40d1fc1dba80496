"""The numbers of a result that lists show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from memorymark.documents import Document
from memorymark.results.trial import Source


@dataclass(frozen=True, kw_only=True)
class Headline(Document):
    """The numbers of a result that lists show; some are missing, depending on its kind and version."""

    gpu_name: str | None
    """The device's name."""
    source: Source | None
    """Whether the numbers were measured or predicted."""
    max_batch_size: int | None
    """The largest batch that trains."""
    recommended_batch_size: int | None
    """The batch worth using."""
    recommended_recipe: str | None
    """The recipe of the best option of an advice, in words."""
    speedup: float | None
    """Throughput as recommended over today's."""
    cost_savings_annual: float | None
    """Dollars saved in a year."""
    fastest: str | None
    """The id of the fastest GPU of a comparison; null if several may be."""
    fastest_candidates: list[str] | None
    """The ids of the GPUs that may be the fastest."""
    cheapest: str | None
    """The id of the cheapest GPU of a comparison; null if several may be."""
    cheapest_candidates: list[str] | None
    """The ids of the GPUs that may be the cheapest."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Headline:
        """Makes the headline from a result, or from a stored headline."""
        return cls(**{number.name: document.get(number.name) for number in fields(cls)})
