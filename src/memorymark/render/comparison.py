"""Prints comparisons of GPUs."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memorymark.render.comparison_words import (
    about_contest,
    about_left_out,
    comparison_heading,
    comparison_notes,
    short_name,
    shortlist,
)
from memorymark.render.rates import rate, short_run_words, unit_of
from memorymark.render.tables import make_console, make_table, title
from memorymark.results.comparison import Comparison, Contender
from memorymark.units import format_rate, format_usd


def print_comparison(result: Comparison, console: Console | None = None, *, every_gpu: bool = False) -> None:
    """Prints the same training on several GPUs, the fastest first; of very many, only a choice unless ``every_gpu``."""
    console = console or make_console()
    console.print(title(*comparison_heading(result)))
    rows, left_out = (result.contenders, []) if every_gpu else shortlist(result)
    console.print(_table(result, rows))
    for sentence in (*about_contest(result), *about_left_out(left_out)):
        console.print(Padding(Text(sentence), (0, 2)))
    for note in comparison_notes(result):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def _table(result: Comparison, rows: list[Contender]) -> Table:
    unit, runs = unit_of(c.timed for c in result.contenders), any(c.whole_run for c in result.contenders)
    table = make_table("GPU", "max", "use", unit, "whole run" if runs else "$/million", "price", "")
    claims = (("fastest", result.fastest), ("cheapest", result.cheapest))
    for contender in rows:
        analysis, price = contender.analysis, contender.price
        name = short_name(contender)
        if analysis is None:
            table.add_row(name, "[red]does not fit[/red]")
            continue
        recommended, run = analysis.recommended, contender.whole_run
        marks = [f"[green]{word}[/green]" for word, one in claims if contender == one]
        table.add_row(
            name,
            str(analysis.max_batch_size),
            str(recommended.batch_size) if recommended else "" if contender.memory_only else "none",
            format_rate(rate(contender.timed)) if contender.samples_per_second else "",
            short_run_words(run) if run else _per_million(contender),
            f"${price.usd_per_hour:.2f}/h" if price else "",
            ", ".join(marks),
        )
    return table


def _per_million(contender: Contender) -> str:
    cost = contender.usd_per_million_samples
    return format_usd(cost) if cost is not None else ""
