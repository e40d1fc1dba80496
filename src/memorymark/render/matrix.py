"""Where a training fits, GPUs by recipes: as a table on a terminal, and as what templates show."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memorymark.catalog import GpuEntry
from memorymark.render.flags import flags, flags_of
from memorymark.render.tables import make_console, make_table, title
from memorymark.render.words import SMALL, predicted_notes
from memorymark.results.matrix import Matrix, MatrixCell
from memorymark.units import format_bytes, format_count

View = dict[str, Any]
# From which batch on a cell counts as better; the first is any batch at all.
LEVELS = (1, 4, 16, 64)
STYLES = ("red", "yellow", "cyan", "green", "bold green")
LEGEND = "Each cell is the largest batch that trains; - where not even one sample fits."
MANY = 10_000
WIDTH, ROW_HEIGHT, TOP, LEFT, COLUMN_WIDTH = 900, 26, 92, 190, 82
LETTERS = 26


def print_matrix(result: Matrix, console: Console | None = None) -> None:
    """Prints a line for each GPU and a column for each recipe."""
    console = console or make_console()
    console.print(title(*matrix_heading(result)))
    console.print(Padding(_recipes(result), (0, 2)))
    table = make_table("GPU", *_letters(len(result.taken)))
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for at, gpu in enumerate(result.entries):
        cells = [row.cells[at] for row in result.taken]
        shown = [Text(in_cell(cell), style=STYLES[level(cell)]) for cell in cells]
        table.add_row(short(gpu), *shown)
    console.print(table)
    for note in matrix_notes(result):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def _recipes(result: Matrix) -> Table:
    """Returns what the letters of the columns stand for."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for letter, row in zip(_letters(len(result.taken)), result.taken, strict=True):
        table.add_row(Text(letter, style="bold"), row.title)
        if options := flags(row.options):
            table.add_row("", Text(options, style="dim"))
    return table


def matrix_heading(result: Matrix) -> tuple[str, str]:
    """Returns the model, and its sample and where the numbers come from."""
    model = result.request.entry.name + (SMALL if result.info.small else "")
    return model, " · ".join(filter(None, (result.info.sample, f"{len(result.gpus)} GPUs", result.source)))


def matrix_notes(result: Matrix) -> list[str]:
    """Returns what a reader of the numbers should know."""
    refused = [f"Not for this model: {row.title}: {row.why_not}" for row in result.rows if not row.cells]
    unanswered = {cell.why_not: gpu for row in result.taken for cell in row.cells if cell.why_not for gpu in [cell.gpu]}
    said = [f"{gpu}: {why}" for why, gpu in unanswered.items()]
    return [LEGEND, *refused, *said, *predicted_notes(None, certain=result.info.certain, timed=True, speeds=False)]


def in_cell(cell: MatrixCell) -> str:
    """Returns the largest batch as a cell has room for it."""
    if cell.why_not:
        return "?"
    if not cell.max_batch_size:
        return "-"
    many = cell.max_batch_size >= MANY
    return f"{cell.max_batch_size / 1000:.3g}k" if many else f"{cell.max_batch_size:,}"


def level(cell: MatrixCell) -> int:
    """Returns how large the batch of a cell is, from 0 for none to 4."""
    return sum(cell.max_batch_size >= least for least in LEVELS)


def short(gpu: GpuEntry) -> str:
    """Returns the name of a GPU without its maker."""
    return gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def matrix_view(result: Matrix) -> View:
    """Returns what the page and the picture of a matrix show."""
    asked = f"memorymark analyze {result.request.model}"
    commands = [f"{asked} {flags_of(result.request, row.recipe)}".rstrip() for row in result.taken]
    rows = []
    for at, gpu in enumerate(result.entries):
        cells = [
            {
                "text": in_cell(row.cells[at]),
                "level": level(row.cells[at]),
                "said": row.cells[at].why_not or f"{command} --gpu {gpu.id}",
            }
            for row, command in zip(result.taken, commands, strict=True)
        ]
        rows.append({"name": short(gpu), "memory": format_bytes(gpu.torch_memory_bytes), "cells": cells})
    letters = _letters(len(result.taken))
    return {
        "heading": matrix_heading(result),
        "parameters": format_count(result.info.parameters),
        "recipes": [
            {"letter": letter, "title": row.title, "flags": flags(row.options)}
            for letter, row in zip(letters, result.taken, strict=True)
        ],
        "rows": rows,
        "notes": matrix_notes(result),
    }


def matrix_picture(result: Matrix) -> View:
    """Returns what the picture shows, with the places of its cells."""
    view = matrix_view(result)
    wide = min(COLUMN_WIDTH, (WIDTH - LEFT) // max(len(view["recipes"]), 1))
    top = TOP + 18 * len(view["recipes"])
    return {
        **view,
        "width": WIDTH,
        "height": top + ROW_HEIGHT * len(view["rows"]) + 20,
        "column_width": wide,
        "row_height": ROW_HEIGHT,
        "left": LEFT,
        "top": top,
    }


def _letters(count: int) -> list[str]:
    return [chr(ord("A") + number % LETTERS) for number in range(count)]
