"""The table of docs/advice.md: what can be changed about a training, and what that costs."""

from __future__ import annotations

from memorymark.question.changes import CHANGES
from pages.markdown import table

AFFECTS = {0: "nothing", 1: "time or memory", 2: "numerics", 3: "what is learned", 4: "the data that is seen"}


def changes() -> str:
    """Every change, the most harmless first."""
    ordered = sorted(CHANGES.values(), key=lambda change: change.level)
    return table(
        ["change", "affects", "what it costs"],
        [[change.title, AFFECTS[change.level], change.cost] for change in ordered],
    )
