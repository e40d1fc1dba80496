"""Prints an explanation: the step as a chart of characters, what is alive at the peak, and the modules."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from memorymark.render.explanation_words import (
    KINDS,
    about_failure,
    about_peak,
    about_removable,
    explanation_notes,
    named,
    parts_at_peak,
    rows_of_kinds,
    rows_of_modules,
    what_is_alive,
)
from memorymark.render.tables import make_console, make_table, title
from memorymark.render.timeline import columns
from memorymark.render.words import PARTS, heading
from memorymark.results.explanation import Explanation
from memorymark.units import format_bytes

# A colour and a character for each part: without colours, the characters tell them apart.
LOOK = {
    "weights_bytes": ("blue", "█"),
    "gradients_bytes": ("magenta", "▓"),
    "gradient_buckets_bytes": ("magenta", "#"),
    "optimizer_state_bytes": ("yellow", "▒"),
    "gathered_parameters_bytes": ("blue", "="),
    "kv_cache_bytes": ("red", "%"),
    "activations_bytes": ("green", "░"),
    "temporaries_bytes": ("cyan", ":"),
}
HEIGHT, MOST_WIDTH, BESIDE = 12, 96, 22
# What the other columns of the table of modules take at most.
BESIDE_MODULES = 52
ROWS_ALIVE = 8
BAR_WIDTH = 16


def print_explanation(result: Explanation, console: Console | None = None) -> None:
    """Prints the report of an explanation."""
    console = console or make_console()
    how = (f"batch {result.trial.batch_size}", heading(result.request, result.info, result.info.source)[1])
    console.print(title(heading(result.request, result.info, result.info.source)[0], " · ".join(how)))
    if (failure := about_failure(result)) is not None:
        console.print(Padding(Text(failure, style="bold red"), (0, 2, 1, 2)))
    console.print(Padding(_chart(result, min(max(console.width - BESIDE, 24), MOST_WIDTH)), (0, 2)))
    console.print(_legend(result))
    console.print(Padding(Text(about_peak(result)), (0, 2)))
    if (could_go := about_removable(result)) is not None:
        console.print(Padding(Text(could_go, style="bold"), (0, 2)))
    console.print(_alive(result, console.width))
    console.print(_kinds(result))
    console.print(_modules(result, console.width))
    for note in explanation_notes(result):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def _chart(result: Explanation, width: int) -> Text:
    timeline = result.timeline
    drawn = columns(timeline, width, HEIGHT)
    text = Text()
    top = format_bytes(timeline.peak_bytes)
    for row in reversed(range(HEIGHT)):
        text.append((top if row == HEIGHT - 1 else "0" if row == 0 else "").rjust(len(top)) + " ", style="dim")
        for column in drawn:
            color, mark = LOOK[part] if (part := column[row]) is not None else ("", " ")
            text.append(mark, style=color)
        text.append("\n")
    at = min(timeline.moments[timeline.peak] * width // (timeline.events + 1), width - 1)
    text.append(" " * (len(top) + 1) + " " * at + "▲\n", style="bold")
    text.append(" " * (len(top) + 1) + _phases(result, width), style="dim")
    return text


def _phases(result: Explanation, width: int) -> str:
    """Returns the names of the phases below the chart, each where it begins."""
    line, whole = "", result.timeline.events + 1
    for span in result.timeline.phases:
        start = span.start * width // whole
        if start >= len(line):
            line = line.ljust(start) + f"|{span.name} "
    return line[: width + BESIDE // 3]


def _legend(result: Explanation) -> object:
    whole = result.timeline.peak_bytes
    table = make_table("at the peak", "", "", right=(1, 2))
    for part, size in parts_at_peak(result):
        color, mark = LOOK[part]
        label = Text.assemble((mark * 2, color), f" {PARTS[part]}")
        table.add_row(label, format_bytes(size), f"{100 * size / whole:.1f} %")
    table.add_row(Text("allocated", style="bold"), Text(format_bytes(whole), style="bold"), "")
    return table


def _alive(result: Explanation, width: int) -> object:
    table = make_table("largest", "", "what", "module", numbers=2)
    for blocks in result.alive[:ROWS_ALIVE]:
        times = f"{blocks.count} x" if blocks.count > 1 else ""
        path = Text(at_dots(named(blocks), (width - BESIDE) // 2), overflow="fold")
        table.add_row(format_bytes(blocks.total_bytes), times, what_is_alive(blocks), path)
    return table


def _kinds(result: Explanation) -> object:
    table = make_table("by kind", "", "", "", right=(1, 2))
    for kind, size, share in rows_of_kinds(result):
        bar = Text("█" * round(BAR_WIDTH * share), style="cyan")
        table.add_row(KINDS[kind], format_bytes(size), f"{100 * share:.1f} %", bar)
    return table


def _modules(result: Explanation, width: int) -> object:
    table = make_table("by module", "", "kind", "", "", right=(1, 3, 4))
    for row in rows_of_modules(result):
        times = f"x {row.count}" if row.count > 1 else ""
        kind = KINDS[row.kind] if row.kind is not None else ""
        path = Text(at_dots(row.path, width - BESIDE_MODULES), overflow="fold")
        table.add_row(path, times, kind, format_bytes(row.size_bytes), f"{100 * row.share:.1f} %")
    return table


def at_dots(path: str, room: int) -> str:
    """Returns the path of a module in lines of at most ``room`` characters that end at dots, if its names allow it."""
    lines = [""]
    for name in path.split("."):
        part = f"{name}."
        if lines[-1] and len(lines[-1] + part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines).removesuffix(".")
