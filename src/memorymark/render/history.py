"""Prints past analyses for people, on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from memorymark.history import ListedJob
from memorymark.render.narrow import Entry, print_table_or_list
from memorymark.render.tables import make_console, make_table
from memorymark.render.words import described, speedup_words
from memorymark.results.analysis import Analysis
from memorymark.units import format_bytes, format_rate

# Enough characters of an id to tell jobs apart; every command takes the start of an id.
SHOWN_OF_ID = 8


def print_history(jobs: Sequence[ListedJob]) -> None:
    """Prints a line for each job, the latest first."""
    console = make_console()
    if not jobs:
        console.print("  Nothing yet: `memorymark analyze bert` makes the first entry.")
        return
    table = make_table("id", "when", "training", "on", "max", "use", "speedup")
    lines: list[Entry] = []
    for job in jobs:
        numbers = job.headline or {}
        job_id, when = job.id[:SHOWN_OF_ID], f"{datetime.fromtimestamp(job.created_at):%b %d %H:%M}"
        what, how = escape(_what(job)), escape(_how(job, numbers))
        where = f"{escape(_place(job))}, {_outcome(job, numbers)}"
        largest, best, speedup = (numbers.get(name) for name in ("max_batch_size", "recommended_batch_size", "speedup"))
        found = _shown(largest), _shown(best), f"{speedup:.2f}x" if speedup else ""
        table.add_row(job_id, when, f"{what} · {how}", where, *found)
        named = [f"{word} {value}" for word, value in zip(("max", "use", "speedup"), found, strict=True) if value]
        lines.append((f"{job_id}  {when}  {what}", " · ".join([how, where, *named])))
    print_table_or_list(console, table, lines)


def _model(analysis: Analysis) -> str:
    """Returns the model's name, its task if one was requested, and whether it is a stand-in."""
    asked = [analysis.request.entry.name, *([analysis.request.task] if analysis.request.task else [])]
    return ", ".join([*asked, *(["small stand-in"] if analysis.info.small else [])])


def print_side_by_side(analyses: dict[str, Analysis]) -> None:
    """Prints several analyses in columns."""
    console = make_console()
    table = make_table("", *analyses)
    several = analyses.values()
    rows: dict[str, list[str]] = {
        "model": [_model(one) for one in several],
        "sample": [one.info.sample for one in several],
        "recipe": [described(one.request, one.info) for one in several],
        "for": [f"{one.info.device_name}, {format_bytes(one.target_bytes)}" for one in several],
        "source": [one.source for one in several],
        "maximum batch": [str(one.max_batch_size) for one in several],
        "recommended batch": [_shown(one.recommended.batch_size if one.recommended else None) for one in several],
        "speed there": [_speed(one) for one in several],
        "speedup over today": [speedup_words(one) for one in several],
        "GPU memory at maximum": [format_bytes(one.info.held_bytes(one.maximum)) for one in several],
        "saves a year": [f"${one.savings.per_year_usd:,.0f}" if one.savings else "" for one in several],
    }
    for name, cells in rows.items():
        table.add_row(name, *map(escape, cells))
    console.print(table)
    if len({one.source for one in several}) > 1:
        console.print(Padding(Text("Some of these numbers are measured and some are predicted.", style="dim"), (0, 2)))


def _speed(analysis: Analysis) -> str:
    best = analysis.recommended
    return f"{format_rate(best.rate)} {best.rate_unit}" if best and best.rate else ""


def _shown(value: int | None) -> str:
    return "" if value is None else str(value)


def _what(job: ListedJob) -> str:
    """Returns what is trained."""
    return f"{job.model}, {job.sample_words}" if job.sample_words else job.model


def _how(job: ListedJob, numbers: dict[str, Any]) -> str:
    """Returns how it is trained and, for advice, how it should be."""
    today, advised = job.recipe_words, numbers.get("recommended_recipe")
    return f"{today} → {advised}" if advised and advised != today else today


def _place(job: ListedJob) -> str:
    """Returns the target, and the memory limit if there is one."""
    cap_bytes = job.memory_cap_bytes
    return f"{job.target_name}, {format_bytes(cap_bytes)} cap" if cap_bytes else job.target_name


def _outcome(job: ListedJob, numbers: dict[str, Any]) -> str:
    """How the numbers came about, or why there are none."""
    if job.state == "done":
        nothing = "no change, " if job.kind == "advice" and numbers.get("recommended_batch_size") is None else ""
        return nothing + str(numbers.get("source") or "predicted")  # only predictions are of all GPUs
    color = "red" if job.state == "failed" else "yellow"
    return f"[{color}]{job.state}[/{color}]"
