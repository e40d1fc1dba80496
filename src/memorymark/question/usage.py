"""How much the user trains, which decides what a speedup saves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from memorymark.question.limits import LARGEST_AMOUNT, LARGEST_JOB, NO_LIMIT
from memorymark.question.options import group, option, settle_options


@group("usage")
@dataclass(frozen=True, kw_only=True)
class Usage:
    """How much is trained: hours per run today, runs per year and person, and people.

    ``samples`` or ``tokens`` is what one run trains on, epochs included; its hours then follow from the speed.
    """

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

    samples: int | None = option(
        None,
        "Samples that a whole run trains on, all epochs together; shows its hours and its cost.",
        title="Samples of a run",
        unit="samples",
        metavar="N",
        rare=True,
        minimum=1,
        maximum=LARGEST_JOB,
    )
    tokens: int | None = option(
        None,
        "Tokens that a whole run trains on, all epochs together; shows its hours and its cost.",
        title="Tokens of a run",
        unit="tokens",
        metavar="N",
        rare=True,
        minimum=1,
        maximum=LARGEST_JOB,
        sample_units=("tokens",),
    )

    def __post_init__(self) -> None:
        settle_options(self)

    @property
    def has_run(self) -> bool:
        """Whether it says how much a run trains on."""
        return self.samples is not None or self.tokens is not None

    def to_dict(self) -> dict[str, Any]:
        """Returns the usage in JSON types."""
        return asdict(self)
