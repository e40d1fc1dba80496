"""How much the user trains, which decides what a speedup saves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from memorymark.question.limits import LARGEST_AMOUNT, NO_LIMIT
from memorymark.question.options import group, option, settle_options


@group("usage")
@dataclass(frozen=True, kw_only=True)
class Usage:
    """How much is trained: hours per run today, runs per year and person, and people."""

    hours_per_run: float = option(
        2.0,
        "Hours that one run takes today.",
        title="Run length today",
        unit="hours",
        rare=True,
        above=0,
        maximum=LARGEST_AMOUNT,
    )
    runs_per_year: float = option(
        100.0, "Runs per person and year.", title="Runs per year", rare=True, above=0, maximum=LARGEST_AMOUNT
    )
    people: int = option(1, "Number of people who train this much.", rare=True, minimum=1, maximum=NO_LIMIT)

    def __post_init__(self) -> None:
        settle_options(self)

    def to_dict(self) -> dict[str, Any]:
        """Returns the usage in JSON types."""
        return asdict(self)
