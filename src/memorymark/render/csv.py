"""Writes the trials of a result as CSV, for spreadsheets and programs, one line for each trial."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from memorymark.render.plain import one_line
from memorymark.render.words import described
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from memorymark.results.result import Result
from memorymark.results.trial import Trial

# Columns that identify the training, and columns of the trial.
WHICH = ("model", "recipe", "sample", "gpu")
OF_TRIAL = (
    "batch_size",
    "fits",
    "source",
    "steps",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_bytes",
    "peak_host_bytes",
    "kv_cache_bytes",
    "generation_peak_bytes",
    "allocator_retries",
    "step_seconds",
    "samples_per_second",
    "tokens_per_batch",
    "tokens_per_second",
)
# A spreadsheet reads a cell that begins with one of these as a formula.
FORMULA = ("=", "+", "-", "@")


def as_csv(result: Result) -> str:
    """Returns every trial of the result as CSV, by training and batch size."""
    text = io.StringIO()
    writer = csv.DictWriter(text, (*WHICH, *OF_TRIAL, "failure"), lineterminator="\n")
    writer.writeheader()
    for row in _rows(result):
        writer.writerow({name: cell(value) for name, value in row.items()})
    return text.getvalue()


def _rows(result: Result) -> Iterator[dict[str, Any]]:
    if isinstance(result, Analysis):
        yield from _of_analysis(result)
    elif isinstance(result, (Comparison, Sweep)):
        for analysis in result.analyses.values():
            yield from _of_analysis(analysis)
    else:
        yield from _of_advice(result)


def _of_analysis(result: Analysis) -> Iterator[dict[str, Any]]:
    info, request = result.info, result.request
    which = (request.entry.name, described(request, info), info.sample, info.device_name)
    for trial in sorted(result.trials, key=lambda trial: trial.batch_size):
        yield _row(which, trial)


def _of_advice(result: Advice) -> Iterator[dict[str, Any]]:
    info, request = result.info, result.request
    trials = [(request.recipe, result.today)] if result.today is not None else []
    trials += [(option.recipe, option.trial) for option in result.ranked]
    for recipe, trial in trials:
        yield _row(
            (request.entry.name, recipe.describe(info.optimizer, info.weights_dtype), info.sample, info.device_name),
            trial,
        )


def _row(which: tuple[str, ...], trial: Trial) -> dict[str, Any]:
    facts = {name: getattr(trial, name) for name in OF_TRIAL}
    return {**dict(zip(WHICH, which, strict=True)), **facts, "failure": trial.failure.message if trial.failure else ""}


def cell(value: Any) -> Any:
    """Returns a value as a cell that no spreadsheet reads as a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(FORMULA) else text
