"""Prints the model catalog for people, on stdout."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.padding import Padding
from rich.text import Text

from memorymark.catalog import ModelEntry, all_models
from memorymark.catalog.tasks import TASKS
from memorymark.render.narrow import Entry, print_table_or_list
from memorymark.render.tables import make_console, make_table
from memorymark.units import format_count

WIDEST_ID = max(len(entry.id) for entry in all_models())
OTHER_MODELS = (
    "Others: any Hugging Face id (org/name), a folder with a config.json (./folder), timm:NAME, "
    "or your own function that makes a Workload (file.py:function)."
)


def print_models(entries: Iterable[ModelEntry]) -> None:
    """Prints the models, grouped by task."""
    table = make_table("id", "parameters", "sample", "Hugging Face id")
    table.columns[1].justify = "right"
    lines: list[Entry] = []
    for (kind, task), group in groupby(entries, key=lambda entry: (entry.type, entry.task)):
        table.add_section()
        table.add_row(f"[bold]{kind}[/bold]", "", "", f"[bold]{TASKS[task].title}[/bold]")
        lines += [("", ""), (f"[bold]{kind}: {TASKS[task].title}[/bold]", "")]
        for entry in group:
            size, sample = format_count(entry.parameters), f"{entry.sample_size} {entry.sample_unit}"
            table.add_row(entry.id, size, sample, entry.huggingface_id)
            lines.append((f"{entry.id:<{WIDEST_ID}}  {size:>6}, {sample}", entry.huggingface_id))
    console = make_console()
    print_table_or_list(console, table, lines[1:])
    console.print(Padding(Text(OTHER_MODELS, style="dim"), (0, 2)))
