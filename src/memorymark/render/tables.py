"""The console, titles and tables of reports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memorymark.render.console import CleanConsole

# Columns that people copy from, whose cells must not be wrapped.
UNBROKEN = (
    "id",
    "Hugging Face id",
    "sample",
    "when",
    "for",
    "max",
    "use",
    "speedup",
    "GPU",
    "$/million",
    "price",
    "parameters",
    "memory",
    "batch",
    "samples/s",
    "tokens/s",
    "whole run",
)


def make_console() -> Console:
    """Makes the console for reports."""
    return CleanConsole()


def title(model: str, how: str) -> Padding:
    """Returns the heading of a report: the model, and how it is trained."""
    return Padding(Text.assemble((model, "bold"), ("  " + how, "dim")), (1, 2))


def make_table(*columns: str, numbers: int = 0, right: Collection[int] = ()) -> Table:
    """Makes a table whose first ``numbers`` columns, and those at ``right``, are right-aligned."""
    table = Table(box=SIMPLE, padding=(0, 1), header_style="dim")
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if index < numbers or index in right else "left"
        table.add_column(column, justify=justify, no_wrap=column in UNBROKEN)
    return table
