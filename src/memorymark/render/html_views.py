"""The data that the templates of the HTML report show for each result, without markup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memorymark.render.advice import DIALECTS, about_faults, advice_notes
from memorymark.render.comparison_words import about_contest, comparison_heading, comparison_notes
from memorymark.render.explanation_view import explanation_view
from memorymark.render.families import WAYS, batch, costs_of_families, least_change, longest
from memorymark.render.grid import grid_view
from memorymark.render.html_charts import memory_chart, throughput_chart
from memorymark.render.matrix import matrix_view
from memorymark.render.rates import rate, rate_interval, short_run_words, speed_words, unit_of
from memorymark.render.words import (
    PARTS,
    SYNTHETIC,
    about_maximum,
    about_other_loop,
    about_packing,
    about_recommended,
    about_run,
    about_savings,
    about_waste,
    described,
    heading,
    notes,
    prediction_notes,
    training_notes,
    why_not_timed,
)
from memorymark.results.advice import Advice, AdvisedOption
from memorymark.results.analysis import Analysis
from memorymark.results.code import Code
from memorymark.results.comparison import Comparison, Contender
from memorymark.results.explanation import Explanation
from memorymark.results.family import Family
from memorymark.results.grid import Grid
from memorymark.results.lengths import Length, Sweep
from memorymark.results.matrix import Matrix
from memorymark.results.option import TrainingOption
from memorymark.results.result import Result
from memorymark.results.trial import Breakdown, Trial

# Keys must not be names of dict methods, which templates would find instead.
View = dict[str, Any]


def view_of(result: Result | Trial | Grid | Explanation | Matrix) -> tuple[str, View]:
    """Returns the name of a result's template, and its data."""
    match result:
        case Trial():
            return "trial", _trial(result)
        case Explanation():
            return "explanation", {**explanation_view(result), "breakdown": _breakdown(result.trial.breakdown)}
        case Matrix():
            return "matrix", matrix_view(result)
        case Grid():
            return "grid", grid_view(result)
        case Sweep():
            return "lengths", _lengths(result)
        case Comparison():
            return "comparison", _comparison(result)
        case Advice():
            return "advice", _advice(result)
        case Analysis():
            return "analysis", _analysis(result)


def title_of(result: Result | Trial | Grid | Explanation | Matrix) -> str:
    """Describes a result in a few words."""
    if isinstance(result, Trial):
        return f"batch {result.batch_size}, {result.source}"
    if isinstance(result, Grid):
        return f"sweep of {len(result.cases)} cases"
    info = result.plan.info if isinstance(result, Sweep) else result.info
    return f"{result.request.entry.name}, {described(result.request, info)}"


def _analysis(result: Analysis) -> View:
    timed = [trial for trial in result.curve if trial.samples_per_second]
    best = result.recommended
    return {
        "heading": heading(result.request, result.info, result.source),
        "memory": list(_memory(result)),
        "max_batch_size": result.max_batch_size,
        "about_maximum": about_maximum(result),
        "other_loop": about_other_loop(result),
        "packing": about_packing(result),
        "recommended_batch_size": best.batch_size if best else None,
        "about_recommended": about_recommended(result),
        "whole_run": about_run(result),
        "savings": about_savings(result),
        "charts": (memory_chart(result), throughput_chart(result)) if timed else None,
        "unit": unit_of(timed),
        "trials": [_timed(result, trial) for trial in timed],
        "has_intervals": any(trial.intervals for trial in timed),
        "capped": result.info.capped,
        "breakdown": _breakdown(result.maximum.breakdown),
        "code": _code(result.code),
        "notes": notes(result),
    }


def _memory(result: Analysis) -> Iterator[View]:
    """Yields what the GPU holds at the peak with today's batch, the recommended one and the largest."""
    best, maximum = result.recommended, result.maximum
    is_best = best is not None and best.batch_size == maximum.batch_size
    yield _held(result, "today", result.current_batch_size, result.current)
    if best is not None and not is_best:
        yield _held(result, "recommended", best.batch_size, best)
    yield {**_held(result, "maximum", maximum.batch_size, maximum), "is_recommended": is_best}


def _held(result: Analysis, kind: str, batch_size: int, trial: Trial | None) -> View:
    row = {"kind": kind, "is_recommended": kind == "recommended", "batch_size": batch_size}
    if trial is None or not trial.fits:
        return {**row, "fits": False, "why": why_not_timed(result)}
    waste, total = result.waste(trial), result.target_bytes
    return {
        **row,
        "fits": True,
        "used_bytes": total - waste.unused_bytes,
        "total_bytes": total,
        "share": 1 - waste.fraction,
        "about": about_waste(result) if kind == "today" else f"{100 - 100 * waste.fraction:.1f} % used",
    }


def _timed(result: Analysis, trial: Trial) -> View:
    marks = {
        "today": trial.batch_size == result.current_batch_size,
        "recommended": trial == result.recommended,
        "maximum": trial.batch_size == result.max_batch_size,
        "thrashing": trial.batch_size in result.thrashing,
    }
    return {
        "batch_size": trial.batch_size,
        "held_bytes": result.info.held_bytes(trial),
        "allocated_bytes": trial.peak_allocated_bytes,
        "rate": rate(trial),
        "between": rate_interval(trial),
        "marks": [mark for mark, is_one in marks.items() if is_one],
    }


def _trial(trial: Trial) -> View:
    return {
        "heading": (f"batch {trial.batch_size}", trial.source),
        "failure": trial.failure.message if trial.failure is not None else None,
        "allocated_bytes": trial.peak_allocated_bytes,
        "reserved_bytes": trial.peak_reserved_bytes,
        "device_bytes": trial.device_bytes,
        "host_bytes": trial.peak_host_bytes,
        "speed": speed_words(trial) if trial.samples_per_second else None,
        "step_seconds": trial.step_seconds,
        "breakdown": _breakdown(trial.breakdown),
    }


def _breakdown(breakdown: Breakdown | None) -> View | None:
    if breakdown is None:
        return None
    total = breakdown.total_bytes
    sizes = {name: getattr(breakdown, name) for name in PARTS}
    return {
        "parts": [
            {"kind": name, "label": PARTS[name], "size_bytes": size, "share": size / total}
            for name, size in sizes.items()
            if size > 0
        ],
        "total_bytes": total,
    }


def _comparison(result: Comparison) -> View:
    top = max((contender.samples_per_second or 0.0 for contender in result.contenders), default=0.0)
    return {
        "heading": comparison_heading(result),
        "unit": unit_of(contender.timed for contender in result.contenders),
        "runs": any(contender.whole_run for contender in result.contenders),
        "gpus": [_gpu(result, contender, top or 1.0) for contender in result.contenders],
        "notes": [*about_contest(result), *comparison_notes(result)],
    }


def _gpu(result: Comparison, contender: Contender, top: float) -> View:
    analysis = contender.analysis
    if analysis is None:
        return {"name": contender.gpu.name, "fits": False}
    speed, best = contender.samples_per_second or 0.0, analysis.recommended
    claims = {"fastest": result.fastest, "cheapest": result.cheapest}
    return {
        "name": contender.gpu.name,
        "fits": True,
        "max_batch_size": analysis.max_batch_size,
        "recommended_batch_size": best.batch_size if best else None,
        "rate": rate(contender.timed),
        "share": speed / top,
        "whole_run": short_run_words(contender.whole_run) if contender.whole_run else None,
        "usd_per_million_samples": contender.usd_per_million_samples,
        "marks": [claim for claim, one in claims.items() if contender == one],
    }


def _lengths(result: Sweep) -> View:
    plan = result.plan
    return {
        "heading": heading(result.request, replace(plan.info, sample="several lengths"), plan.source),
        "planned_batch_size": result.planned_batch,
        "rows": [_length(result, length) for length in result.lengths],
        "advice": result.advice,
        "notes": [SYNTHETIC, *training_notes(plan.info, plan.request.recipe), *prediction_notes(plan.info)],
        "analyses": {length: _analysis(analysis) for length, analysis in result.analyses.items()},
    }


def _length(result: Sweep, length: Length) -> View:
    if length.analysis is None:
        return {"seq_len": length.seq_len, "fits": False}
    best, top = length.analysis.recommended, max(analysis.max_batch_size for analysis in result.analyses.values())
    return {
        "seq_len": length.seq_len,
        "fits": True,
        "is_planned": length.seq_len == result.plan_for,
        "max_batch_size": length.analysis.max_batch_size,
        "share": length.analysis.max_batch_size / top,
        "recommended_batch_size": best.batch_size if best else None,
        "tokens_per_second": length.tokens_per_second or 0.0,
        "lost": length.lost,
    }


def _advice(result: Advice) -> View:
    best = result.best
    top = max((result.gain(option) or 0.0 for option in result.options), default=0.0)
    return {
        "heading": heading(result.request, result.info, result.info.source),
        "unit": unit_of([*(option.trial for option in result.options), result.today]),
        "runs": result.usage.has_run,
        "verdict": result.verdict,
        "faults": about_faults(result),
        "fits_today": result.fits_today,
        "options": [] if result.only_families else [_option(result, one, top or 1.0) for one in result.ranked],
        "ways": WAYS,
        "families": [_family(result, family) for family in result.families],
        "costs": costs_of_families(result.families) if result.only_families else best.costs if best else [],
        "learning_rate": result.learning_rate_note(best) if best else None,
        "code": _code(result.code(best)) if best else [],
        "refused": [{"title": one.title, "why": one.why} for one in result.refused],
        "notes": advice_notes(result),
    }


def _family(result: Advice, family: Family) -> View:
    option = family.option
    return {
        "title": family.title,
        "change": least_change(family),
        "fits": option is not None,
        "batch": batch(family),
        "max_batch_size": option.max_batch_size if option else None,
        "longest": longest(family),
        "rate": rate(option.trial) if option else 0.0,
        "held_bytes": result.info.held_bytes(option.trial) if option else 0,
    }


def _option(result: Advice, option: TrainingOption, top: float) -> View:
    gain, run = result.gain(option), AdvisedOption(option, result).whole_run
    return {
        "title": option.title,
        "is_best": option == result.best,
        "gain": gain,
        "share": (gain or 0.0) / top,
        "rate": rate(option.trial),
        "whole_run": short_run_words(run) if run else None,
        "held_bytes": result.info.held_bytes(option.trial),
        "usd_per_million_samples": result.usd_per_million_samples(option.trial),
        "source": option.source,
        "predicted_gain": result.predicted_gain(option) if option.measured is not None else None,
    }


def _code(code: Code) -> list[tuple[str, str]]:
    """Returns the code of each library by its name."""
    return [(title, getattr(code, dialect)) for dialect, title in DIALECTS.items()]
