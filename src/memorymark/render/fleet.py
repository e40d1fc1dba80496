"""Prints what the jobs of a fleet waste."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from memorymark.render import fleet_view as view
from memorymark.render.console import CleanConsole
from memorymark.render.narrow import print_table_or_list
from memorymark.render.tables import make_table
from memorymark.results.fleet import Fleet
from memorymark.results.fleet_words import percent

COLORS = {"idle": "red", "data_bound": "yellow", "oversized": "cyan", "tensor_idle": "magenta", "underused": "yellow"}


def print_fleet(fleet: Fleet, console: Console | None = None) -> None:
    """Prints the jobs that waste GPU time, the worst first, and what their owners can be told."""
    console = console or CleanConsole()
    title, how = view.heading(fleet)
    console.print(Padding(Text.assemble((title, "bold"), ("  " + how, "dim")), (1, 2)))
    console.print(Padding(Text(view.summary(fleet), style="bold"), (0, 2)))
    jobs = view.wasteful(fleet)
    if jobs and _print_jobs(console, fleet):
        for number, job in enumerate(jobs, 1):
            console.print(Padding(Text.assemble((f"{number}. {_who(job.id, job.owner)}: ", "bold"), job.says), (0, 2)))
        console.print()
    for note in view.notes(fleet):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def _print_jobs(console: Console, fleet: Fleet) -> bool:
    """Prints a table, or on a narrow terminal a list that also says what to tell the owners."""
    table = make_table("", *view.units(fleet), "job", "owner", "GPUs", "busy", "memory", "wasted by", numbers=3)
    entries = []
    for number, job in enumerate(view.wasteful(fleet), 1):
        color, found = COLORS[job.findings[0].finding], view.findings(job)
        amounts, held = view.wasted(fleet, job), escape(view.gpus(job))
        table.add_row(
            f"{number}",
            *amounts,
            escape(job.id),
            escape(job.owner),
            held,
            percent(job.busy),
            view.memory(job),
            f"[{color}]{found}[/{color}]",
        )
        who = f"{number}. {escape(_who(job.id, job.owner))}  [{color}]{found}[/{color}]"
        facts = f"{amounts[0]} {view.units(fleet)[0]}, {amounts[1]}; {held}, busy {percent(job.busy)}"
        entries.append((who, f"{facts}\n{escape(job.says)}"))
    return print_table_or_list(console, table, entries)


def _who(job: str, owner: str) -> str:
    return f"{job} ({owner})" if owner else job
