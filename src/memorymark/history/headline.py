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
    source: Source | None
    max_batch_size: int | None
    recommended_batch_size: int | None
    recommended_recipe: str | None
    speedup: float | None
    cost_savings_annual: float | None
    fastest: str | None
    fastest_candidates: list[str] | None
    cheapest: str | None
    cheapest_candidates: list[str] | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Headline:
        """Makes the headline from a result, or from a stored headline."""
        return cls(**{number.name: document.get(number.name) for number in fields(cls)})
