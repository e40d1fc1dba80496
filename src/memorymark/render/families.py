"""Words about the ways to fine-tune a language model, for the terminal and HTML."""

from __future__ import annotations

from collections.abc import Iterable

from memorymark.question.changes import CHANGES
from memorymark.results.family import Family
from memorymark.results.option import NOTICED, TrainingOption
from memorymark.units import format_bytes

WAYS = "Ways to fine-tune it on this GPU"


def least_change(family: Family) -> str:
    """Says what must change, or why nothing helps."""
    if family.option is None:
        return family.why_not
    return "none" if family.option.changes == ("batch",) else family.option.recipe_title


def longest(family: Family) -> str:
    """Returns the longest sequence at batch 1, in tokens."""
    return f"{family.longest_seq_len:,}" if family.longest_seq_len else ""


def batch(family: Family) -> str:
    """Returns the batch at which the family's speed and memory hold: ``2 x 8`` with 8 accumulation steps."""
    option = family.option
    if option is None:
        return ""
    return f"{option.batch_size}{f' x {option.accumulation_steps}' if option.accumulation_steps > 1 else ''}"


def costs_of_families(families: Iterable[Family]) -> list[tuple[str, str]]:
    """Returns what each change costs, by its title, and what that is in each family, where it is known."""
    options = [(family.title, family.option) for family in families if family.option is not None]
    changes = dict.fromkeys(change for _, option in options for change in option.changes if change != "batch")
    return [
        (CHANGES[one].title, f"{CHANGES[one].cost}{_here(one, [way for way in options if one in way[1].changes])}")
        for one in changes
    ]


def _here(change: str, options: list[tuple[str, TrainingOption]]) -> str:
    known = []
    for title, option in options:
        slower, taken = option.slower.get(change, 0.0), option.host_bytes_of(change)
        parts = [f"{100 * abs(slower):.0f} % {'slower' if slower > 0 else 'faster'}"] if abs(slower) >= NOTICED else []
        parts += [f"{format_bytes(taken)} of the host's memory"] if taken else []
        known += [f"{title} {' and '.join(parts)}"] if parts else []
    return f" Here: {', '.join(known)}." if known else ""
