"""Prints the report of a watched training on stderr, since the script's own output is on stdout."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding, PaddingDimensions
from rich.table import Table
from rich.text import Text

from memorymark.render.console import CleanConsole
from memorymark.render.words import PARTS
from memorymark.units import format_bytes, format_rate
from memorymark.watch.findings.base import Finding
from memorymark.watch.observation import Observation
from memorymark.watch.report import Report

BAR = 20
ESTIMATED = 'Estimated, not run; where a gain says "up to", it is an upper bound.'
UNCERTAIN = (
    "The inputs' first dimension varies as lengths do, and no layer or label tells whether it is the batch: if it is "
    "not, the batch and the samples above are wrong."
)
SHORT_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def print_watch_report(report: Report, console: Console | None = None) -> None:
    """Prints the verdict first, then the numbers behind it, then what to type."""
    console = console or CleanConsole(stderr=True)
    seen = report.observation
    console.print(_padded(_title(report), (1, 2, 0, 2)))
    if seen.steps:
        console.print(_padded(Text(_setting(seen), style="dim"), (0, 2)))
    good = not report.verdict.findings or report.verdict.findings[0].is_small
    mark = ("✓ ", "bold green") if good and seen.steps else ("► ", "bold yellow")
    console.print(_padded(Text.assemble(mark, (report.verdict.headline, "bold")), (1, 2)))
    if not seen.steps and not report.verdict.findings:
        return
    console.print(_bars(report))
    findings = report.verdict.findings
    for number, finding in enumerate(findings, 1):
        console.print(_padded(_finding(number, finding, several=len(findings) > 1), (1, 2, 0, 2)))
    console.print()
    for line in _small_print(report):
        console.print(_padded(Text(line, style="dim"), (0, 2)))


def _padded(what: RenderableType, pad: PaddingDimensions) -> Padding:
    return Padding(what, pad, expand=False)


def _title(report: Report) -> Text:
    seen = report.observation
    steps = f"{seen.steps:,} steps" if seen.steps else "no steps"
    ended = ""
    if report.exit_code:
        ended = f" · exit code {report.exit_code}"
        if seen.ending is not None:
            ended += f" ({seen.ending.kind})"
    return Text.assemble(("MemoryMark watched ", "dim"), (report.title, "bold"), (f" · {steps}{ended}", "dim"))


def _setting(seen: Observation) -> str:
    model, device = seen.model, seen.device
    words = []
    if device is not None:
        words.append(f"{device.name} {format_bytes(device.total_bytes)}" if device.total_bytes else device.name)
    if model is not None:
        words.append(f"{model.name} {_count(model.parameters)}".strip())
        precision = SHORT_PRECISIONS.get(model.precision, model.precision)
        cast = f"{SHORT_PRECISIONS.get(seen.autocast, seen.autocast)} autocast" if seen.autocast else precision
        words.append(cast + (" with TF32" if seen.tf32 and precision == "fp32" and not seen.autocast else ""))
        words += [name for name, on in (("compiled", model.compiled), ("checkpointing", model.checkpointing)) if on]
    names = [("fused " if optimizer.fused else "") + optimizer.name for optimizer in seen.optimizers]
    words.append(" + ".join(names))
    if seen.batch_size is not None:
        times = f" x {seen.micro_batches} = {seen.effective_batch_size}" if seen.micro_batches > 1 else ""
        words.append(f"batch {seen.batch_size}{times}{_dimension(seen)}")
    if seen.keeps_outputs:
        words.append("keeps its outputs")
    return " · ".join(filter(None, words))


def _dimension(seen: Observation) -> str:
    """Says which dimension the batch is where that may surprise."""
    if seen.batch_dimension:
        return f" (the {('second', 'third')[seen.batch_dimension - 1]} dimension)"
    return " (or is that the length?)" if seen.batch_is_uncertain else ""


def _count(number: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit} parameters"
    return f"{number} parameters"


def _bars(report: Report) -> Table:
    seen = report.observation
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    if seen.step_seconds and seen.lost is not None:
        kind = "waiting for data" if seen.loader is not None else "between the steps"
        share = f"{100 * (1 - seen.lost):.0f} % at work, {100 * seen.lost:.0f} % {kind}"
        speed = f", {format_rate(seen.samples_per_second)} samples/s" if seen.samples_per_second else ""
        table.add_row(
            "time", _bar(1 - seen.lost, "green"), f"{share}; {_milliseconds(seen.step_seconds)} a step{speed}"
        )
    memory, device = seen.memory, seen.device
    if memory is not None and device is not None and device.capacity_bytes:
        part = memory.peak_reserved_bytes / device.capacity_bytes
        used = (
            f"{format_bytes(memory.peak_reserved_bytes)} of {format_bytes(device.capacity_bytes)} ({100 * part:.0f} %)"
        )
        table.add_row("memory", _bar(part, "cyan"), f"{used}; {format_bytes(memory.peak_allocated_bytes)} allocated")
    if seen.busy is not None:
        power = f", at {100 * seen.power:.0f} % of its power" if seen.power is not None else ""
        table.add_row("GPU", _bar(seen.busy, "magenta"), f"busy {100 * seen.busy:.0f} % of the time{power}")
    if report.estimate is not None:
        today = f" [dim]today {seen.batch_size}[/dim]" if seen.batch_size else ""
        table.add_row("batch", f"[bold]about {report.estimate.maximum}[/bold] at most", f"estimated;{today}")
    return table


def _bar(part: float, style: str) -> Text:
    filled = round(BAR * min(max(part, 0.0), 1.0))
    return Text("█" * filled, style=style) + Text("░" * (BAR - filled), style="dim")


def _finding(number: int, finding: Finding, *, several: bool) -> Group:
    lead = f"{number}. " if several else ""
    head = Text.assemble((f"{lead}{finding.title}", "bold"), (f"   {finding.gain}" if finding.gain else "", "green"))
    parts: list[RenderableType] = [head, _padded(Text(f"because {finding.reason}."), (0, 0, 0, 3))]
    if finding.code:
        parts.append(_padded(Text(finding.code, style="cyan"), (0, 0, 0, 7)))
    if finding.note:
        parts.append(_padded(Text(finding.note, style="dim"), (0, 0, 0, 3)))
    return Group(*parts)


def _small_print(report: Report) -> list[str]:
    seen, lines = report.observation, []
    if seen.peaked_outside_steps:
        step = format_bytes(seen.training_peak_allocated_bytes or 0)
        lines.append(f"The recorded training step takes {step}; the peak was another's, perhaps an evaluation's.")
    if report.breakdown is not None:
        sizes = [(label, getattr(report.breakdown, name)) for name, label in PARTS.items()]
        held = ", ".join(f"{label} {format_bytes(size)}" for label, size in sizes if size >= 2**20)
        lines.append(f"At the peak: {held}.")
    if report.estimate is not None:
        lines.append(f"The largest batch rests on {report.estimate.basis}.")
    if seen.batch_is_uncertain:
        lines.append(UNCERTAIN)
    if seen.problem is not None:
        lines.append(f"Watching ended early: {seen.problem}.")
    if report.estimate is not None or report.verdict.findings:
        lines.append(ESTIMATED)
    return lines


def _milliseconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
