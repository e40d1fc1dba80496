"""A sweep for people: its table, its page and its rows as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from memorymark.render.console import CleanConsole
from memorymark.render.csv import cell
from memorymark.render.html_charts import DIGIT_WIDTH, Area, Frame, Label, apart, round_ticks
from memorymark.render.rates import short_run_words
from memorymark.render.words import SYNTHETIC
from memorymark.results.grid import Grid, GridCase, GridGroup
from memorymark.units import format_rate, format_usd

COLUMNS = (
    *("number", "model_name", "sample", "recipe", "gpu", "gpu_name", "source", "fits", "max_batch_size", "batch_size"),
    *("keeps_margin", "samples_per_second", "samples_per_second_low", "samples_per_second_high", "tokens_per_second"),
    *("step_seconds", "usd_per_hour", "usd_per_million_samples", "hours", "usd", "marks", "job", "error_code", "error"),
)
MEANS = (
    "max is the largest batch that trains, use the one worth using, at which speed and cost hold. A case is on the "
    "front if no other with the same model and samples is both faster and cheaper, by the middle of the intervals."
)
INTERVALS = "Fastest and cheapest are named only where no other case's interval reaches that far."
# A chart of a single case says nothing.
LEAST_DOTS = 2


def marks(group: GridGroup, case: GridCase) -> list[str]:
    """Returns what a case is the best at in its group."""
    claims = {"fastest": group.fastest, "cheapest": group.cheapest}
    found = [claim for claim, number in claims.items() if number == case.number]
    return [*found, "on the front"] if case.number in group.front else found


def about_contest(group: GridGroup) -> list[str]:
    """Says which cases are or may be the fastest and the cheapest."""
    contests = (("Fastest", group.fastest_candidates), ("Cheapest", group.cheapest_candidates))
    return [f"{title}: {_one_of(candidates)}" for title, candidates in contests if candidates]


def _one_of(candidates: list[GridCase]) -> str:
    names = [f"{short_gpu(one)} with {one.recipe}" for one in candidates]
    if len(names) == 1:
        return f"{names[0]}."
    if len(names) > 3:
        return f"{names[0]} or one of {len(names) - 1} others within the uncertainty."
    return f"{', '.join(names[:-1])} or {names[-1]}, within the uncertainty."


def short_gpu(case: GridCase) -> str:
    """Returns the GPU's name for a table."""
    return case.gpu_name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def speed(group: GridGroup, case: GridCase) -> str:
    """Returns the speed of a case in its group's unit."""
    per_second = case.tokens_per_second if group.counts_tokens else case.samples_per_second
    return format_rate(per_second) if per_second else ""


def cost(case: GridCase) -> str:
    """Returns what the whole run costs, or else a million samples."""
    if case.whole_run is not None:
        return short_run_words(case.whole_run)
    per_million = case.usd_per_million_samples
    return format_usd(per_million) if per_million is not None else ""


def _size(batch_size: int | None) -> str:
    return f"{batch_size:,}" if batch_size else "none"


def cost_of(group: GridGroup) -> str:
    """Returns what the costs of a group are for, as the heading of their column."""
    return "whole run" if any(one.whole_run for one in group.cases) else "$/million"


def summary(grid: Grid) -> str:
    """Says how many cases there are and what came of them."""
    unfit = sum(one.error is not None and not one.has_failed for one in grid.cases)
    facts = [f"{len(grid.cases)} cases", f"{unfit} do not fit" if unfit else ""]
    facts += [f"{grid.failed} failed" if grid.failed else "", f"{grid.reused} from the history" if grid.reused else ""]
    return ", ".join(filter(None, facts))


def print_grid(grid: Grid, console: Console | None = None) -> None:
    """Prints a table for each model and sample, the fastest case first, and what failed."""
    from memorymark.render.tables import make_table

    console = console or CleanConsole()
    console.print(f"\n[bold]Sweep[/bold]  [dim]{summary(grid)}[/dim]")
    for group in grid.groups:
        console.print(f"\n[bold]{escape(group.model_name)}[/bold]  [dim]{escape(group.sample)}[/dim]")
        table = make_table("GPU", "recipe", "max", "use", f"{unit(group)}/s", cost_of(group), "", right=(2, 3, 4, 5))
        for case in (*group.timed, *(one for one in group.cases if not one.samples_per_second)):
            words = ", ".join(marks(group, case))
            sizes = (_size(case.max_batch_size), _size(case.batch_size if case.keeps_margin else None))
            row = (short_gpu(case), case.recipe, *sizes, speed(group, case), cost(case))
            table.add_row(*map(escape, row), f"[green]{words}[/green]")
        console.print(table)
        for sentence in about_contest(group):
            console.print(Padding(Text(sentence), (0, 2)))
    _print_unanswered(grid, console)
    for note in (MEANS, INTERVALS, SYNTHETIC) if grid.groups else ():
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def _print_unanswered(grid: Grid, console: Console) -> None:
    without = [one for one in grid.cases if not one.fits]
    if without:
        console.print("\n[bold]Without an answer[/bold]")
    for case in without:
        colour = "red" if case.has_failed else "yellow"
        console.print(f"  [{colour}]{escape(named(case))}[/{colour}]: {escape(case.error or '')}", soft_wrap=True)


def named(case: GridCase) -> str:
    """Returns a case in a few words."""
    return " · ".join(filter(None, (case.model_name, case.sample, case.recipe, short_gpu(case))))


def unit(group: GridGroup) -> str:
    """Returns what the speeds of a group count."""
    return "tokens" if group.counts_tokens else "samples"


def grid_csv(grid: Grid) -> str:
    """Returns a row for each case as CSV."""
    said = {one.number: marks(group, one) for group in grid.groups for one in group.cases}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for case in grid.cases:
        between = case.samples_per_second_interval or (None, None)
        run, price = case.whole_run, case.price
        more = {
            "samples_per_second_low": between[0],
            "samples_per_second_high": between[1],
            "usd_per_hour": price.usd_per_hour if price else None,
            "hours": run.hours if run else None,
            "usd": run.usd if run else None,
            "marks": ", ".join(said.get(case.number, [])),
        }
        writer.writerow({name: cell(more[name] if name in more else getattr(case, name)) for name in COLUMNS})
    return text.getvalue()


@dataclass(frozen=True)
class NamedDot:
    """A case in a chart; ``kind`` colours those on the front."""

    x: float
    y: float
    kind: str | None
    name: str


@dataclass(frozen=True)
class ContestChart:
    """Cases by cost and speed."""

    frame: Frame
    dots: list[NamedDot]
    front: list[tuple[float, float]]


def contest_chart(group: GridGroup) -> ContestChart | None:
    """Makes the chart of speed against money; ``None`` if there is nothing to compare."""
    priced = [one for one in group.timed if one.usd_per_million_samples is not None]
    if len(priced) < LEAST_DOTS:
        return None
    costs = {one.number: one.usd_per_million_samples or 0.0 for one in priced}
    speeds = {one.number: _speed(group, one) for one in priced}
    area, most = Area(max(speeds.values()) * 1.05), max(costs.values()) * 1.05

    def x(usd: float) -> float:
        return area.left + (area.right - area.left) * usd / most

    dots = [
        NamedDot(
            x(costs[one.number]),
            area.y(speeds[one.number]),
            "recommended" if one.number in group.front else None,
            f"{short_gpu(one)}, {one.recipe}: {speed(group, one)} {unit(group)}/s, ${format_usd(costs[one.number])}",
        )
        for one in priced
    ]
    labels = apart([Label(x(usd), f"${usd:,.10g}") for usd in round_ticks(most)])
    title = f"{unit(group)} per second by what a million samples cost; the line is the front"
    front = [(x(costs[number]), area.y(speeds[number])) for number in group.front]
    frame = Frame(title, area, [one for one in labels if one.place < area.right + DIGIT_WIDTH], "$ per million samples")
    return ContestChart(frame, dots, front)


def _speed(group: GridGroup, case: GridCase) -> float:
    return (case.tokens_per_second if group.counts_tokens else case.samples_per_second) or 0.0


def grid_view(grid: Grid) -> dict[str, Any]:
    """Returns the data that the template of the page shows."""
    return {
        "heading": ("Sweep", summary(grid)),
        "groups": [_group_view(group) for group in grid.groups],
        "unanswered": [
            {"name": named(one), "error": one.error, "kind": "today" if one.has_failed else "limit"}
            for one in grid.cases
            if not one.fits
        ],
        "notes": [MEANS, INTERVALS, SYNTHETIC] if grid.groups else [],
    }


def _group_view(group: GridGroup) -> dict[str, Any]:
    top = max((_speed(group, one) for one in group.cases), default=0.0) or 1.0
    return {
        "heading": (group.model_name, group.sample),
        "unit": f"{unit(group)}/s",
        "cost_of": cost_of(group),
        "chart": contest_chart(group),
        "contest": about_contest(group),
        "rows": [
            {
                "gpu": short_gpu(one),
                "recipe": one.recipe,
                "max_batch_size": _size(one.max_batch_size),
                "use": _size(one.batch_size if one.keeps_margin else None),
                "speed": speed(group, one),
                "share": _speed(group, one) / top,
                "cost": cost(one),
                "source": one.source,
                "marks": marks(group, one),
            }
            for one in (*group.timed, *(one for one in group.cases if not one.samples_per_second))
        ],
    }
