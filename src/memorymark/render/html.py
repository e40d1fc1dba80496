"""Results as HTML: a fragment for notebooks, a page to keep or send. Inline styles and SVG, no scripts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memorymark.advice import Advice
from memorymark.analysis import Analysis
from memorymark.comparison import Comparison
from memorymark.render.advice import DIALECTS, about_faults, advice_notes
from memorymark.render.html_charts import BLUE, COLORS, GREEN, RED, memory_chart, throughput_chart
from memorymark.render.plain import escape_html as escape
from memorymark.render.words import (
    PARTS,
    SYNTHETIC,
    about_contest,
    about_maximum,
    about_recommended,
    about_savings,
    about_waste,
    comparison_heading,
    comparison_notes,
    described,
    heading,
    notes,
    prediction_notes,
    training_notes,
    why_not_timed,
)
from memorymark.result import Result
from memorymark.sweep import Sweep
from memorymark.training_code import Code
from memorymark.trial import Breakdown, Trial
from memorymark.units import format_bytes, format_rate, format_usd
from memorymark.version import __version__

GREY = "#8888"
# Colours of text and lines come from the page, so that it reads as well on a dark one.
STYLE = """
.mm{font:14px/1.5 system-ui,sans-serif;max-width:60em}
.mm h2{font-size:1.15em;margin:.4em 0}
.mm h3{font-size:1em;margin:1em 0 .3em}
.mm .how,.mm .note{opacity:.7}
.mm .note{font-size:.9em;margin:.3em 0}
.mm table{border-collapse:collapse;margin:.4em 0}
.mm td,.mm th{padding:.15em .9em .15em 0;text-align:left;font-weight:normal;border:0;background:none}
.mm th{opacity:.7}
.mm .n{text-align:right;font-variant-numeric:tabular-nums}
.mm .bar{display:flex;height:1em;width:10em;background:#8883;border-radius:2px;overflow:hidden}
.mm .bar i{display:block;height:100%}
.mm .charts{display:flex;flex-wrap:wrap;gap:1em 2em}
.mm figure{margin:.8em 0 0;flex:1 1 22em;max-width:34em}
.mm figcaption{font-size:.9em;opacity:.7}
.mm svg{display:block;width:100%;height:auto}
.mm details{margin:.6em 0}
.mm pre{white-space:pre-wrap;overflow-wrap:anywhere}
@media screen{.mm .wide{overflow-x:auto}}
@media print{
.mm{max-width:none;font-size:11px;-webkit-print-color-adjust:exact;print-color-adjust:exact}
.mm td,.mm th{padding-right:.6em}
.mm tr,.mm figure,.mm h3{break-inside:avoid}
.mm h3{break-after:avoid}
.mm .bar{width:7em}
}
"""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{margin:2em}}
@media(max-width:40em){{body{{margin:1em}}}}
@page{{margin:1.5cm}}@media print{{:root{{color-scheme:light}}body{{margin:0}}}}</style>
{fragment}
<p class="mm note" style="opacity:.7">MemoryMark {version}</p>
</html>
"""


def page(result: Result | Trial) -> str:
    """A document that stands by itself."""
    return PAGE.format(title=escape(_title(result)), fragment=fragment(result), version=__version__)


def _title(result: Result | Trial) -> str:
    if isinstance(result, Trial):
        return f"batch {result.batch_size}, {result.source}"
    info = result.plan.info if isinstance(result, Sweep) else result.info
    return f"{result.request.entry.name}, {described(result.request, info)}"


def fragment(result: Result | Trial) -> str:
    """A result as a piece of a page."""
    if isinstance(result, Trial):
        inner = _trial(result)
    elif isinstance(result, Sweep):
        inner = _sweep(result)
    elif isinstance(result, Comparison):
        inner = _comparison(result)
    elif isinstance(result, Advice):
        inner = _advice(result)
    else:
        inner = _analysis(result)
    return f'<div class="mm"><style>{STYLE}</style>{inner}</div>'


def _analysis(result: Analysis) -> str:
    best, saves = result.recommended, about_savings(result)
    sizes = [
        ("maximum", f"<b>{result.max_batch_size}</b>", escape(about_maximum(result))),
        ("recommended", f"<b>{best.batch_size if best else 'none'}</b>", escape(about_recommended(result))),
        *([("saves", *map(escape, saves))] if saves else []),
    ]
    timed = [trial for trial in result.curve if trial.samples_per_second]
    charts = memory_chart(result) + throughput_chart(result) if timed else ""
    legend = ("today", RED), ("recommended", BLUE), ("maximum", GREEN)
    return "".join(
        [
            _heading(*heading(result.request, result.info, result.source)),
            _table(_memory_rows(result)),
            _table(sizes),
            f'<div class="charts">{charts}</div>' + _legend(legend) if timed else "",
            _trials(result, timed),
            _parts(f"At the maximum, batch {result.max_batch_size}", result.maximum.breakdown),
            _code(result.code),
            _notes(notes(result)),
        ]
    )


def _memory_rows(result: Analysis) -> Iterable[Sequence[str]]:
    """Bars of today's batch, the recommended and the largest, all of what the GPU holds at the peak."""
    total, best = result.target_bytes, result.recommended
    rows: list[tuple[str, Trial | None, str, str]] = [("today", result.current, RED, "wasted")]
    if best is not None and best.batch_size != result.max_batch_size:
        rows.append(("<b>recommended</b>", best, BLUE, "used"))
    is_best = best is not None and best.batch_size == result.max_batch_size
    rows.append(("maximum, <b>recommended</b>" if is_best else "maximum", result.maximum, GREEN, "used"))
    for label, trial, color, word in rows:
        if trial is None or not trial.fits:
            yield label, f"batch {result.current_batch_size}", escape(why_not_timed(result)), ""
            continue
        waste = result.waste(trial)
        used = f"{format_bytes(total - waste.unused_bytes)} of {format_bytes(total)}"
        share = about_waste(result) if word == "wasted" else f"{100 - 100 * waste.fraction:.1f} % used"
        bar = _bar([(1 - waste.fraction, color)])
        yield label, f"batch {trial.batch_size}", bar, f"{used}, {share}"


def _trials(result: Analysis, timed: Sequence[Trial]) -> str:
    """The batches that were timed, a row for each."""
    rows = []
    for trial in timed:
        marks = {
            "today": trial.batch_size == result.current_batch_size,
            "recommended": trial == result.recommended,
            "maximum": trial.batch_size == result.max_batch_size,
            "thrashing": trial.batch_size in result.thrashing,
        }
        speed = (trial.intervals or {}).get("samples_per_second")
        rows.append(
            (
                str(trial.batch_size),
                format_bytes(result.info.held_bytes(trial)),
                format_bytes(trial.peak_allocated_bytes),
                format_rate(trial.samples_per_second or 0.0),
                f"{format_rate(speed[0])} to {format_rate(speed[1])}" if speed else "",
                ", ".join(name for name, is_one in marks.items() if is_one),
            )
        )
    held = "reserved" if result.info.capped else "GPU memory"
    head = ("batch", held, "of it allocated", "samples/s", "between" if result.source == "predicted" else "", "")
    return "<h3>Batches that were timed</h3>" + _table(rows, head) if rows else ""


def _trial(trial: Trial) -> str:
    title = _heading(f"batch {trial.batch_size}", trial.source)
    if trial.failure is not None:
        return title + _table([("does not fit", escape(trial.failure.message))])
    rows = [
        ("peak allocated", format_bytes(trial.peak_allocated_bytes)),
        ("peak reserved", format_bytes(trial.peak_reserved_bytes)),
        ("device", format_bytes(trial.device_bytes)),
    ]
    if trial.samples_per_second and trial.step_seconds:
        rows.append(("throughput", f"{format_rate(trial.samples_per_second)} samples/s"))
        rows.append(("step", f"{1e3 * trial.step_seconds:,.1f} ms"))
    return title + _table(rows) + _parts("At the peak", trial.breakdown)


def _comparison(result: Comparison) -> str:
    claims = (("fastest", result.fastest), ("cheapest", result.cheapest))
    top = max((c.samples_per_second or 0.0 for c in result.contenders), default=0.0) or 1.0
    rows = []
    for contender in result.contenders:
        name, analysis = escape(contender.gpu.name), contender.analysis
        if analysis is None:
            rows.append((name, "does not fit", "", "", "", "", ""))
            continue
        marks = [word for word, one in claims if contender == one]
        speed, cost, best = contender.samples_per_second or 0.0, contender.usd_per_million_samples, analysis.recommended
        rows.append(
            (
                name,
                str(analysis.max_batch_size),
                str(best.batch_size) if best else "none",
                format_rate(speed),
                _bar([(speed / top, BLUE)]),
                format_usd(cost) if cost is not None else "",
                ", ".join(marks),
            )
        )
    head = ("GPU", "max", "use", "samples/s", "", "$/million", "")
    title = _heading(*comparison_heading(result))
    return title + _table(rows, head) + _notes([*about_contest(result), *comparison_notes(result)])


def _sweep(result: Sweep) -> str:
    plan = result.plan
    top = max(analysis.max_batch_size for analysis in result.analyses.values())
    rows = []
    for length in result.lengths:
        if length.analysis is None:
            rows.append((str(length.seq_len), "does not fit", "", "", "", "", ""))
            continue
        best, speed = length.analysis.recommended, length.samples_per_second or 0.0
        planned = length.seq_len == result.plan_for
        rows.append(
            (
                str(length.seq_len),
                str(length.analysis.max_batch_size),
                _bar([(length.analysis.max_batch_size / top, BLUE if planned else GREY)]),
                str(best.batch_size) if best else "none",
                format_rate(speed * length.seq_len),
                "" if planned or length.lost is None else f"{100 * length.lost:.0f} % lost",
                "<b>plan for this</b>" if planned else "",
            )
        )
    head = ("tokens", "max", "", "use", "tokens/s", f"at batch {result.planned_batch}", "")
    model, how = heading(result.request, plan.info, plan.source)
    how = how.replace(plan.info.sample, "several lengths", 1) if plan.info.sample else how
    advice = "".join(f"<p>{escape(sentence)}</p>" for sentence in result.advice)
    each = "".join(
        f"<details><summary>{length} tokens</summary>{_analysis(analysis)}</details>"
        for length, analysis in result.analyses.items()
    )
    closing = _notes([SYNTHETIC, *training_notes(plan.info), *prediction_notes(plan.info)])
    return _heading(model, how) + _table(rows, head) + advice + closing + each


def _advice(result: Advice) -> str:
    top = max((result.gain(option) or 0.0 for option in result.options), default=0.0) or 1.0
    rows = []
    for option in result.ranked:
        gain, cost = result.gain(option), result.usd_per_million_samples(option.trial)
        predicted = result.predicted_gain(option)
        beside = f" ({predicted:.1f}x predicted)" if option.measured is not None and predicted else ""
        rows.append(
            (
                f"<b>{gain:.1f}x</b>" if gain else "",
                _bar([((gain or 0.0) / top, GREEN if option == result.best else BLUE)]) if gain else "",
                escape(option.title),
                format_rate(option.samples_per_second),
                format_bytes(result.info.held_bytes(option.trial)),
                format_usd(cost) if cost is not None else "",
                f"{option.source}{beside}",
            )
        )
    best = result.best
    costs = _table([(escape(title), escape(cost)) for title, cost in best.costs]) if best else ""
    rate = f"<p>{escape(result.learning_rate_note(best))}</p>" if best else ""
    codes = _code(result.code(best)) if best else ""
    refused = _table([(escape(one.title), escape(one.why)) for one in result.refused])
    left = f"<details><summary>Looked at and left</summary>{refused}</details>" if result.refused else ""
    title = _heading(*heading(result.request, result.info, result.info.source))
    head = ("gain", "", "change", "samples/s", "GPU memory", "$/million", "")
    verdict = f"<p><b>{escape(result.verdict)}</b></p>"
    verdict += "".join(f"<p>{escape(sentence)}</p>" for sentence in about_faults(result))
    return "".join([title, verdict, _table(rows, head), costs, rate, codes, left, _notes(advice_notes(result))])


def _code(code: Code) -> str:
    written = {title: getattr(code, name) for name, title in DIALECTS.items()}
    return "".join(
        f"<details><summary>Code for {escape(title)}</summary><pre>{escape(text)}</pre></details>"
        for title, text in written.items()
    )


def _heading(title: str, how: str) -> str:
    return f'<h2>{escape(title)}</h2><div class="how">{escape(how)}</div>'


def _table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Cells are HTML already; what looks like a number stands to the right."""
    titles = f"<tr>{''.join(f'<th>{escape(title)}</th>' for title in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table>{titles}{body}</table></div>'


def _cell(text: str) -> str:
    return f'<td class="n">{text}</td>' if text.replace(",", "").replace(".", "").isdigit() else f"<td>{text}</td>"


def _bar(parts: Iterable[tuple[float, str]]) -> str:
    pieces = "".join(f'<i style="width:{100 * part:.2f}%;background:{color}"></i>' for part, color in parts)
    return f'<div class="bar">{pieces}</div>'


def _parts(title: str, breakdown: Breakdown | None) -> str:
    if breakdown is None:
        return ""
    sizes = [(label, getattr(breakdown, name)) for name, label in PARTS.items()]
    colored = [(label, size, color) for (label, size), color in zip(sizes, COLORS, strict=True) if size > 0]
    bar = _bar((size / breakdown.total_bytes, color) for _, size, color in colored)
    rows = [(_dot(color) + escape(label), format_bytes(size)) for label, size, color in colored]
    rows.append(("<b>all that the device holds</b>", f"<b>{format_bytes(breakdown.total_bytes)}</b>"))
    return f"<h3>{escape(title)}</h3>{bar}{_table(rows)}"


def _legend(entries: Iterable[tuple[str, str]]) -> str:
    return '<div class="note">' + " ".join(f"{_dot(color)}{escape(word)}" for word, color in entries) + "</div>"


def _dot(color: str) -> str:
    return f'<span style="color:{color}">&#9632;</span> '


def _notes(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="note">{escape(sentence)}</p>' for sentence in sentences)
