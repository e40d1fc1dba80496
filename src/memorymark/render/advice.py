"""Prints advice for people, on stdout."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from memorymark.render.families import WAYS, batch, costs_of_families, least_change, longest
from memorymark.render.rates import rate, run_words, unit_of
from memorymark.render.words import (
    SYNTHETIC,
    about_memory,
    described,
    heading,
    offload_time_notes,
    prediction_notes,
    usage_in_words,
)
from memorymark.results.advice import Advice, AdvisedOption
from memorymark.results.code import Library
from memorymark.results.option import TrainingOption
from memorymark.results.trial import Trial
from memorymark.units import format_bytes, format_rate, format_ratio, format_usd

# From this width on there is room for the price.
WIDE = 100
LONGEST = "Largest is the largest batch, longest the longest sequence at batch 1 that leaves the margin free."
DIALECTS: dict[Library, str] = {"pytorch": "PyTorch", "transformers": "transformers' Trainer", "lightning": "Lightning"}


def print_advice(result: Advice, console: Console, dialect: Library = "pytorch") -> None:
    """Prints what to do, the gain and cost of each option, and the code of the best."""
    model, how = heading(result.request, result.info, result.info.source)
    console.print(Padding(Text.assemble((model, "bold"), ("  " + how, "dim")), (1, 2)))
    best = result.best
    console.print(Padding(Text(result.verdict, style="bold green" if best else "bold"), (0, 2)))
    for sentence in about_faults(result):
        console.print(Padding(Text(sentence, style="yellow"), (0, 2)))
    if not result.only_families:
        console.print(_options(result, with_price=console.width >= WIDE))
        if best is not None:
            console.print(_costs(best.costs))
    if result.families:
        if not result.only_families:
            console.print(Padding(Text(WAYS, style="dim"), (1, 2, 0, 2)))
        console.print(_families(result))
        if result.only_families:
            console.print(_costs(costs_of_families(result.families)))
    if best is not None:
        for sentence in about_batch(result, best):
            console.print(Padding(Text(sentence), (0, 2)))
    if result.refused:
        console.print(Padding(_refused(result), (1, 0, 0, 0)))
    if best is not None:
        title = f"The change for {DIALECTS[dialect]} (--code shows it for others)"
        console.print(Padding(Text(title, style="dim"), (1, 2)))
        code = indent(getattr(result.code(best), dialect), "    ")
        console.print(Syntax("", "python").highlight(code), soft_wrap=True)  # lines that are pasted must stay whole
    for note in advice_notes(result):
        console.print(Padding(Text(note, style="dim"), (0, 2)))


def about_batch(result: Advice, option: TrainingOption) -> list[str]:
    """Says what the batch means for the learning rate, and what the option gains at today's batch."""
    sentences = [result.learning_rate_note(option)]
    run, today = AdvisedOption(option, result).whole_run, result.todays_trials.whole_run
    if run is not None:
        sentences.append(f"The whole run takes {run_words(run)}{f'; today {run_words(today)}' if today else ''}.")
    before, now = result.predicted, option.at_todays_batch
    is_other = option.effective_batch_size != result.effective_batch_size and option.changes != ("batch",)
    if is_other and now and before and before.samples_per_second:
        kept = now / before.samples_per_second
        sentences.append(
            f"With today's batch of {result.current_batch_size} the same change runs at {format_ratio(kept)} today's "
            "speed, predicted."
        )
    return sentences


def about_faults(result: Advice) -> list[str]:
    """Says what could not be tried because a worker was lost, one sentence each."""
    return [f"Incomplete: {one.title} could not be tried; ask again. {one.reason}" for one in result.faults]


def advice_notes(result: Advice) -> list[str]:
    """Returns what a reader of the numbers should know."""
    confirmed = [option for option in result.options if option.measured is not None and option.predicted is not None]
    notes = [SYNTHETIC, about_memory(result.info)]
    if result.families:
        notes.append(LONGEST)
    if confirmed:
        notes.append(f"{len(confirmed)} of {len(result.options)} options were run on this GPU, the others predicted.")
    if result.request.recipe.compile:
        notes.append("Predicted gains assume no torch.compile, neither today nor after the change.")
    if result.price is not None and result.best is not None and result.fits_today:
        notes.append(f"Savings are {usage_in_words(result.price, result.usage)}.")
    shown = [*result.options, *(family.option for family in result.families if family.option is not None)]
    timed = offload_time_notes(result.info, *(option.recipe for option in shown))
    return [*notes, *timed, *prediction_notes(result.info)]


def _options(result: Advice, *, with_price: bool) -> Padding:
    confirmed = any(option.measured is not None for option in result.options)
    hidden = {*(() if with_price else ("$/million",)), *(() if confirmed else ("how",))}
    unit = unit_of([*(option.trial for option in result.options), result.today])
    columns = {name: name not in hidden for name in ("batch", unit, "memory", "$/million", "how")}
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("gain" if result.fits_today else "", justify="right", no_wrap=True)
    table.add_column("change")
    for column in (name for name, is_shown in columns.items() if is_shown):
        table.add_column(
            "" if column == "how" else column, justify="left" if column == "how" else "right", no_wrap=True
        )

    def add(gain: str, what: Text, batch: str, trial: Trial, how: str) -> None:
        cost = result.usd_per_million_samples(trial)
        cells = {
            "batch": batch,
            unit: format_rate(rate(trial)),
            "memory": format_bytes(result.info.held_bytes(trial)),
            "$/million": format_usd(cost) if cost is not None else "",
            "how": how,
        }
        table.add_row(gain, what, *(cell for name, cell in cells.items() if columns[name]))

    for option in result.ranked:
        gain = result.gain(option)
        steps = f" x {option.accumulation_steps}" if option.accumulation_steps > 1 else ""
        what = Text(option.recipe_title, style="bold green" if option == result.best else "")
        batch = f"{option.batch_size}{steps}"
        add(format_ratio(gain) if gain else "", what, batch, option.trial, _how_known(result, option))
    if result.today is not None:
        words = Text(f"today: {described(result.request, result.info)}", style="dim")
        count = result.request.recipe.accumulation_steps
        batch = f"{result.current_batch_size}{f' x {count}' if count > 1 else ''}"
        add("1.00x", words, batch, result.today, result.today.source)
    return Padding(table, (1, 0))


def _how_known(result: Advice, option: TrainingOption) -> str:
    predicted = result.predicted_gain(option)
    if option.measured is None or predicted is None:
        return option.source
    return f"[green]measured[/green] ({format_ratio(predicted)} predicted)"


def _families(result: Advice) -> Padding:
    """Returns the ways to fine-tune a language model, each with its least change."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    trials = [family.option.trial for family in result.families if family.option is not None]
    table.add_column("", no_wrap=True)
    table.add_column("least change", ratio=1)
    for column in ("batch", "largest", "longest", unit_of(trials), "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for family in result.families:
        option, change = family.option, Text(least_change(family))
        if option is None:
            table.add_row(family.title, Text(f"{change}", style="dim"))
            continue
        change.stylize("bold green" if option == result.best else "")
        most, held = str(option.max_batch_size or ""), format_bytes(result.info.held_bytes(option.trial))
        table.add_row(family.title, change, batch(family), most, longest(family), format_rate(rate(option.trial)), held)
    return Padding(table, (1, 1))


def _costs(costs: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    for title, cost in costs:
        table.add_row(title, escape(cost))
    return table


def _refused(result: Advice) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("considered and rejected")
    table.add_column("")
    for one in result.refused:
        table.add_row(one.title, Text(one.why, style="dim"))
    return table
