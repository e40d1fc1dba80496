"""Results as HTML: a fragment for notebooks, a page to keep or send. Inline styles and SVG, no scripts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memorymark.advice import Advice
from memorymark.analysis import Analysis
from memorymark.comparison import Comparison
from memorymark.render.advice import DIALECTS, advice_notes
from memorymark.render.plain import escape_html as escape
from memorymark.render.words import (
    COMPARED,
    PARTS,
    SYNTHETIC,
    about_maximum,
    about_recommended,
    about_savings,
    comparison_heading,
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
from memorymark.units import format_bytes, format_usd
from memorymark.version import __version__

RED, GREEN, BLUE, GREY = "#c62828", "#2e7d32", "#1565c0", "#8888"
COLORS = ("#1565c0", "#6a1b9a", "#00838f", "#2e7d32", "#ef6c00", "#9e9d24", "#757575", "#bdbdbd")
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
.mm .bar{display:flex;height:1em;width:16em;background:#8883;border-radius:2px;overflow:hidden}
.mm .bar i{display:block;height:100%}
.mm .charts{display:flex;flex-wrap:wrap;gap:1.5em}
.mm svg{overflow:visible}
.mm details{margin:.6em 0}
"""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{margin:2em}}</style>
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
    return f"{result.request.entry.name}, {result.request.recipe.describe(info.optimizer if info else '')}"


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
    marks = {result.current_batch_size: RED, result.max_batch_size: GREEN, **({best.batch_size: BLUE} if best else {})}
    speed = [(t.batch_size, t.samples_per_second or 0.0) for t in timed]
    memory = [(t.batch_size, t.peak_reserved_bytes / 2**30) for t in timed]
    charts = _chart("samples/s by batch size", speed, marks)
    charts += _chart("GiB reserved by batch size", memory, marks, limit=result.info.capacity_bytes / 2**30)
    legend = ("today", RED), ("recommended", BLUE), ("maximum", GREEN)
    return "".join(
        [
            _heading(*heading(result.request, result.info, result.source)),
            _table(_memory_rows(result)),
            _table(sizes),
            f'<div class="charts">{charts}</div>' + _legend(legend) if timed else "",
            _parts(f"At the maximum, batch {result.max_batch_size}", result.maximum.breakdown),
            _code(result.code),
            _notes(notes(result)),
        ]
    )


def _memory_rows(result: Analysis) -> Iterable[Sequence[str]]:
    total = result.target_bytes
    for label, trial, color in (("today", result.current, RED), ("maximum", result.maximum, GREEN)):
        if trial is None or not trial.fits:
            yield label, f"batch {result.current_batch_size}", escape(why_not_timed(result)), ""
            continue
        waste = result.waste(trial)
        used = f"{format_bytes(total - waste.unused_bytes)} of {format_bytes(total)}"
        share = (
            f"{100 * waste.fraction:.1f} % wasted" if label == "today" else f"{100 - 100 * waste.fraction:.1f} % used"
        )
        yield label, f"batch {trial.batch_size}", _bar([(1 - waste.fraction, color)]), f"{used}, {share}"


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
        rows.append(("throughput", f"{trial.samples_per_second:,.1f} samples/s"))
        rows.append(("step", f"{1e3 * trial.step_seconds:,.1f} ms"))
    return title + _table(rows) + _parts("At the peak", trial.breakdown)


def _comparison(result: Comparison) -> str:
    fastest, cheapest = result.fastest, result.cheapest
    top = max((c.samples_per_second or 0.0 for c in result.contenders), default=0.0) or 1.0
    rows = []
    for contender in result.contenders:
        name, analysis = escape(contender.gpu.name), contender.analysis
        if analysis is None:
            rows.append((name, "does not fit", "", "", "", "", ""))
            continue
        marks = [word for word, one in (("fastest", fastest), ("cheapest", cheapest)) if contender == one]
        speed, cost, best = contender.samples_per_second or 0.0, contender.usd_per_million_samples, analysis.recommended
        rows.append(
            (
                name,
                str(analysis.max_batch_size),
                str(best.batch_size) if best else "none",
                f"{speed:,.0f}",
                _bar([(speed / top, BLUE)]),
                format_usd(cost) if cost is not None else "",
                ", ".join(marks),
            )
        )
    head = ("GPU", "max", "use", "samples/s", "", "$/million", "")
    title = _heading(*comparison_heading(result))
    return title + _table(rows, head) + _notes([COMPARED, *prediction_notes(result.info), SYNTHETIC])


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
                f"{speed * length.seq_len:,.0f}",
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
                f"{option.samples_per_second:,.1f}",
                format_bytes(option.trial.peak_allocated_bytes),
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
    head = ("gain", "", "change", "samples/s", "memory", "$/million", "")
    verdict = f"<p><b>{escape(result.verdict)}</b></p>"
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
    return f"<table>{titles}{body}</table>"


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


def _chart(title: str, points: list[tuple[int, float]], marks: dict[int, str], limit: float | None = None) -> str:
    """A curve over batch sizes as SVG, from zero; marked sizes have dots of their own colour."""
    if not points:
        return ""
    width, height = 300, 120
    right, top = max(x for x, _ in points), max(*(y for _, y in points), limit or 0.0) or 1.0

    def place(x: float, y: float) -> str:
        return f"{width * x / right:.1f},{height - height * y / top:.1f}"

    line = " ".join(place(x, y) for x, y in points)
    dots = "".join(_circle(place(x, y), marks.get(x, "currentColor"), 4 if x in marks else 2) for x, y in points)
    cap = ""
    if limit is not None:
        left_end, right_end = place(0, limit).split(","), place(right, limit).split(",")
        cap = (
            f'<line x1="{left_end[0]}" y1="{left_end[1]}" x2="{right_end[0]}" y2="{right_end[1]}" '
            'stroke="currentColor" stroke-dasharray="4 3" opacity=".5"/>'
        )
    axes = f'<path d="M0,0 V{height} H{width}" fill="none" stroke="currentColor" opacity=".4"/>'
    words = (
        f'<text x="4" y="-6">{escape(title)}, up to {top:,.4g}</text>'
        f'<text x="{width}" y="{height + 15}" text-anchor="end">batch {right}</text>'
    )
    return (
        f'<svg width="{width + 20}" height="{height + 42}" viewBox="-8 -22 {width + 20} {height + 42}" '
        f'font-size="11" fill="currentColor" role="img">{axes}{cap}'
        f'<polyline points="{line}" fill="none" stroke="{BLUE}" stroke-width="2"/>{dots}{words}</svg>'
    )


def _circle(place: str, color: str, radius: int) -> str:
    x, y = place.split(",")
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{color}"/>'


def _legend(entries: Iterable[tuple[str, str]]) -> str:
    return '<div class="note">' + " ".join(f"{_dot(color)}{escape(word)}" for word, color in entries) + "</div>"


def _dot(color: str) -> str:
    return f'<span style="color:{color}">&#9632;</span> '


def _notes(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="note">{escape(sentence)}</p>' for sentence in sentences)
