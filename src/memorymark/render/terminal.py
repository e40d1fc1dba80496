"""Prints results for people, on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memorymark.catalog import GpuEntry
from memorymark.engine.doctor import Check
from memorymark.engine.validate import BackwardCheck, CompileCheck, PredictionCheck
from memorymark.question.request import Request
from memorymark.render.advice import print_advice
from memorymark.render.console import CleanConsole
from memorymark.render.generated import generated_notes
from memorymark.render.rates import rate, short_run_words, speed_words, unit_of
from memorymark.render.several import several_notes
from memorymark.render.words import (
    PARTS,
    SYNTHETIC,
    about_contest,
    about_maximum,
    about_other_loop,
    about_packing,
    about_recommended,
    about_run,
    about_savings,
    about_waste,
    comparison_heading,
    comparison_notes,
    heading,
    notes,
    offload_notes,
    prediction_notes,
    short_name,
    training_notes,
    why_not_timed,
    within_time,
)
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison, Contender
from memorymark.results.lengths import Sweep
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.result import Result
from memorymark.results.trial import Breakdown, Trial
from memorymark.units import format_bytes, format_rate, format_usd, gib

BAR_WIDTH = 40
CURVE_WIDTH = 20
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


def print_result(result: Result, console: Console | None = None) -> None:
    """Prints the report of any result."""
    if isinstance(result, Sweep):
        print_sweep(result, console)
    elif isinstance(result, Comparison):
        print_comparison(result, console)
    elif isinstance(result, Advice):
        print_advice(result, console or make_console())
    else:
        print_analysis(result, console)


def print_analysis(result: Analysis, console: Console | None = None) -> None:
    """Prints the report of an analysis."""
    console = console or make_console()
    console.print(_title(*heading(result.request, result.info, result.source)))
    console.print(_memory_bars(result, console.width))
    console.print()
    console.print(_batch_sizes(result))
    console.print(_curve(result, width=min(max(console.width - 76, 8), CURVE_WIDTH)))
    if result.maximum.breakdown is not None:
        console.print(_breakdown(f"At the maximum, batch {result.max_batch_size}", result.maximum.breakdown))
    for note in notes(result):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def print_trial(request: Request, info: ProbeInfo, trial: Trial) -> None:
    """Prints one trial with its heading and notes."""
    console = make_console()
    console.print(_title(*heading(request, info, trial.source)))
    print_facts(trial, console)
    beside = (
        *several_notes(info, request.recipe, trial),
        *offload_notes(info, request.recipe, trial),
        *generated_notes(info, trial),
    )
    for note in (*training_notes(info, request.recipe), *beside, *prediction_notes(info)):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def print_facts(trial: Trial, console: Console) -> None:
    """Prints the numbers of one trial."""
    if trial.failure is not None:
        console.print(f"  [red]batch {trial.batch_size} does not fit:[/red] {escape(trial.failure.message)}")
        return
    rows = _facts()
    tokens = f", {trial.tokens_per_batch:,} tokens" if trial.tokens_per_batch else ""
    rows.add_row("batch", f"{trial.batch_size}{tokens}")
    for label, name in (("peak allocated", "peak_allocated_bytes"), ("peak reserved", "peak_reserved_bytes")):
        rows.add_row(label, format_bytes(getattr(trial, name)) + _between(trial, name))
    rows.add_row("device", format_bytes(trial.device_bytes) + _between(trial, "device_bytes"))
    if trial.peak_host_bytes:
        rows.add_row("host", format_bytes(trial.peak_host_bytes))
    if trial.samples_per_second and trial.step_seconds:
        rows.add_row("throughput", speed_words(trial))
        rows.add_row("step", f"{format_rate(1e3 * trial.step_seconds)} ms{within_time(trial)}")
    rows.add_row("allocator retries", str(trial.allocator_retries))
    console.print(rows)
    if trial.breakdown is not None:
        console.print(_breakdown("At the peak", trial.breakdown))


def print_sweep(result: Sweep, console: Console | None = None) -> None:
    """Prints the same training at several lengths, the shortest first."""
    console = console or make_console()
    plan = result.plan
    console.print(_title(*heading(result.request, replace(plan.info, sample="several lengths"), plan.source)))
    table = make_table(
        "tokens", "max", "use", "samples/s", "tokens/s", f"at batch {result.planned_batch}", "", numbers=6
    )
    for length in result.lengths:
        if length.analysis is None:
            table.add_row(str(length.seq_len), "[red]does not fit[/red]")
            continue
        recommended, speed = length.analysis.recommended, length.samples_per_second or 0.0
        lost = f"{100 * (length.lost or 0):.0f} % slower" if length.loses else "as fast"
        table.add_row(
            str(length.seq_len),
            str(length.analysis.max_batch_size),
            str(recommended.batch_size) if recommended else "none",
            format_rate(speed),
            format_rate(speed * length.seq_len),
            "" if length.seq_len == result.plan_for or length.lost is None else lost,
            "[green]plan for this[/green]" if length.seq_len == result.plan_for else "",
        )
    console.print(table)
    for sentence in result.advice:
        console.print(Padding(Text(sentence), (0, 2)))
    legend = "max is the largest batch that trains, use the one worth using if all samples were that long."
    for note in (legend, SYNTHETIC, *training_notes(plan.info, plan.request.recipe), *prediction_notes(plan.info)):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def print_comparison(result: Comparison, console: Console | None = None) -> None:
    """Prints the same training on every GPU, the fastest first."""
    console = console or make_console()
    console.print(_title(*comparison_heading(result)))
    unit, runs = unit_of(c.timed for c in result.contenders), any(c.whole_run for c in result.contenders)
    table = make_table("GPU", "max", "use", unit, "whole run" if runs else "$/million", "price", "")
    claims = (("fastest", result.fastest), ("cheapest", result.cheapest))
    for contender in result.contenders:
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
            str(recommended.batch_size) if recommended else "none",
            format_rate(rate(contender.timed)) if contender.samples_per_second else "",
            short_run_words(run) if run else _per_million(contender),
            f"${price.usd_per_hour:.2f}/h" if price else "",
            ", ".join(marks),
        )
    console.print(table)
    for sentence in about_contest(result):
        console.print(Padding(Text(sentence), (0, 2)))
    for note in comparison_notes(result):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def _per_million(contender: Contender) -> str:
    cost = contender.usd_per_million_samples
    return format_usd(cost) if cost is not None else ""


def print_prediction_check(result: PredictionCheck) -> None:
    """Prints measured and predicted numbers side by side."""
    console = make_console()
    console.print(_title(*heading(result.request, result.info, "measured and predicted")))
    unit = unit_of(measured for measured, _ in result.pairs)
    table = make_table("batch", "allocated", "predicted", "off by", "reserved", "predicted", unit, "predicted")
    for measured, predicted in result.pairs:
        off = f"{100 * (predicted.peak_allocated_bytes / measured.peak_allocated_bytes - 1):+.2f} %"
        memory = (measured.peak_allocated_bytes, predicted.peak_allocated_bytes)
        reserved = (measured.peak_reserved_bytes, predicted.peak_reserved_bytes)
        speed = (format_rate(rate(trial)) for trial in (measured, predicted))
        table.add_row(str(measured.batch_size), *map(format_bytes, memory), off, *map(format_bytes, reserved), *speed)
    console.print(table)
    console.print(
        f"  Largest batch: {result.measured_maximum} measured, {result.predicted_maximum} predicted "
        f"({100 * result.maximum_error:+.1f} %)."
    )


def print_gpus(entries: Iterable[GpuEntry], here: set[str]) -> None:
    """Prints the GPU catalog."""
    table = make_table("id", "name", "memory", "compute", "price used", "other prices")
    for entry in entries:
        price = entry.price
        others = "; ".join(other.describe() for other in entry.prices if other != price)
        name = f"[green]{entry.name} (here)[/green]" if entry.id in here else entry.name
        memory = f"{gib(entry.torch_memory_bytes):.2f} GiB"
        table.add_row(entry.id, name, memory, entry.compute_capability, price.describe() if price else "none", others)
    make_console().print(table)


def print_checks(checks: Sequence[Check]) -> None:
    """Prints the findings of the doctor."""
    console = make_console()
    marks = {"ok": "[green]✓[/green]", "warn": "[yellow]![/yellow]", "fail": "[red]✗[/red]"}
    for check in checks:
        console.print(f"{marks[check.status]} [bold]{check.name}[/bold]  {escape(check.found)}")
        if check.advice:
            console.print(f"  [dim]→ {escape(check.advice)}[/dim]")


def print_backward(result: BackwardCheck) -> None:
    """Prints the three peaks and the verdict."""
    console = make_console()
    rows = _facts()
    rows.add_row("forward only, no_grad", format_bytes(result.forward_bytes))
    rows.add_row("forward and backward", format_bytes(result.forward_backward_bytes))
    rows.add_row("full step", format_bytes(result.full_step_bytes))
    rows.add_row("ratio", f"{result.ratio:.2f}x at batch {result.batch_size} (published: 2 to 3x)")
    console.print(rows)
    color = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}[result.verdict]
    console.print(f"  [{color} bold]{result.verdict}[/{color} bold]: {result.explanation}")


def print_compile(result: CompileCheck) -> None:
    """Prints eager and compiled numbers side by side."""
    console = make_console()
    table = make_table("", "eager", "compiled")
    pair = (result.eager, result.compiled)
    table.add_row("step", *(f"{format_rate(1e3 * (t.step_seconds or 0))} ms" for t in pair))
    table.add_row("throughput", *(speed_words(t) for t in pair))
    table.add_row("peak allocated", *(format_bytes(t.peak_allocated_bytes) for t in pair))
    console.print(table)
    steps = result.pays_off_after_steps
    pays = f"it pays off after {steps:,} steps" if steps is not None else "it does not pay off here"
    console.print(f"  {result.speedup:.2f}x, compiled in {result.compile_seconds:.1f} s: {pays}.")


def make_console() -> Console:
    """Makes the console for reports."""
    return CleanConsole()


def _title(model: str, how: str) -> Padding:
    return Padding(Text.assemble((model, "bold"), ("  " + how, "dim")), (1, 2))


def _memory_bars(result: Analysis, columns: int) -> Table:
    table = _facts()
    total = result.target_bytes
    now, then = result.current, result.maximum
    shares = {"today": about_waste(result) if now and now.fits else "", "maximum": _used(result, then)}
    beside = 53 + len(str(result.max_batch_size)) + max(map(len, shares.values()))  # the rest of the line
    width = min(max(columns - beside, 8), BAR_WIDTH)
    for label, trial, color in (("today", now, "red"), ("maximum", then, "green")):
        if trial is None or not trial.fits:
            table.add_row(label, f"batch {result.current_batch_size}", why_not_timed(result), "")
            continue
        waste = result.waste(trial)
        filled = round(width * (1 - waste.fraction))
        bar = Text("█" * filled, style=color) + Text("░" * (width - filled), style="dim")
        used = f"{format_bytes(total - waste.unused_bytes)} of {format_bytes(total)}"
        table.add_row(label, f"batch {trial.batch_size}", bar, f"{used}, {shares[label]}")
    return table


def _used(result: Analysis, trial: Trial) -> str:
    return f"{100 * (1 - result.waste(trial).fraction):.1f} % used"


def _batch_sizes(result: Analysis) -> Table:
    table = _facts()
    table.add_row("maximum", f"[bold]{result.max_batch_size}[/bold]", about_maximum(result))
    if (other := about_other_loop(result)) is not None:
        table.add_row(*other)
    for row in about_packing(result):
        table.add_row(*row)
    best = result.recommended
    if best is None:
        table.add_row("recommended", "none", about_recommended(result))
        return table
    table.add_row("recommended", f"[bold green]{best.batch_size}[/bold green]", about_recommended(result))
    if (run := about_run(result)) is not None:
        table.add_row("whole run", *run)
    if (saves := about_savings(result)) is not None:
        table.add_row("saves", *saves)
    return table


def _between(trial: Trial, name: str) -> str:
    if trial.intervals is None:
        return ""
    low, high = trial.intervals[name]
    return f"  ({format_bytes(low)} to {format_bytes(high)})"


def _curve(result: Analysis, width: int) -> Table:
    timed = [trial for trial in result.curve if trial.samples_per_second]
    best = max(map(rate, timed), default=1.0)
    table = make_table("batch", "allocated", "reserved", unit_of(timed), "throughput", "", numbers=4)
    for trial in timed:
        speed = rate(trial)
        marks = [
            *(["today"] if trial.batch_size == result.current_batch_size else []),
            *(["[green]recommended[/green]"] if trial == result.recommended else []),
            *(["maximum"] if trial.batch_size == result.max_batch_size else []),
            *(["[yellow]thrashing[/yellow]"] if trial.batch_size in result.thrashing else []),
        ]
        memory = (format_bytes(trial.peak_allocated_bytes), format_bytes(trial.peak_reserved_bytes))
        bar = Text("█" * round(width * speed / best), style="cyan")
        table.add_row(str(trial.batch_size), *memory, format_rate(speed), bar, ", ".join(marks))
    return table


def _breakdown(title: str, breakdown: Breakdown) -> Table:
    table = make_table(title, "")
    for name, label in PARTS.items():
        size = getattr(breakdown, name)
        if size:
            table.add_row(label, format_bytes(size))
    table.add_row("[bold]all that the device holds[/bold]", f"[bold]{format_bytes(breakdown.total_bytes)}[/bold]")
    return table


def _facts() -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    return table


def make_table(*columns: str, numbers: int = 0) -> Table:
    """Makes a table whose first ``numbers`` columns are right-aligned."""
    table = Table(box=SIMPLE, padding=(0, 1), header_style="dim")
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if index < numbers else "left"
        table.add_column(column, justify=justify, no_wrap=column in UNBROKEN)
    return table
