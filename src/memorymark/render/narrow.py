"""Tables that become lists on narrow terminals, so that names to copy are not broken."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Entry = tuple[str, str]
WIDE = 10_000


def print_table_or_list(console: Console, table: Table, entries: Iterable[Entry]) -> bool:
    """Prints the table if no word has to be broken; else each entry's first line and, indented, its second.

    Returns whether it was the table.
    """
    if _least_width(console, table) <= console.width:
        console.print(table)
        return True
    console.print()
    for first, second in entries:
        console.print(Text.from_markup(f"  {first}"), soft_wrap=True)
        if second:
            console.print(Padding(Text.from_markup(second, style="dim"), (0, 0, 0, 4), expand=False))
    console.print()
    return False


def _least_width(console: Console, table: Table) -> int:
    """Returns the least width of the table that breaks no word, and no cell of a column without wrapping."""
    for column in table.columns:
        texts = [Text.from_markup(str(cell)) for cell in (column.header, *column.cells)]
        parts = texts if column.no_wrap else [Text(word) for text in texts for word in text.plain.split()]
        column.min_width = max(part.cell_len for part in parts)
    return console.measure(table, options=console.options.update_width(WIDE)).minimum
