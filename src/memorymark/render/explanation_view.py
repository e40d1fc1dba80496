"""The data that the templates of an explanation show, without markup."""

from __future__ import annotations

from typing import Any

from memorymark.render.explanation_words import (
    KINDS,
    about_failure,
    about_peak,
    about_removable,
    explanation_notes,
    named,
    parts_at_peak,
    rows_of_kinds,
    what_is_alive,
)
from memorymark.render.timeline import timeline_chart
from memorymark.render.treemap import Rectangle, laid_out
from memorymark.render.words import PARTS, heading
from memorymark.results.explanation import Explanation, ModuleMemory
from memorymark.units import format_bytes

View = dict[str, Any]
TREEMAP = Rectangle(0, 0, 900, 360)
# Smaller tiles are put together in one.
MOST_TILES, LEAST_SHARE = 40, 0.002
LETTER_WIDTH, LINE_HEIGHT, INSET = 6.6, 15, 6
SIDE, BESIDE_LABEL = 14.0, 34
MOST_ROWS = 40


def explanation_view(result: Explanation) -> View:
    """Returns what the page of an explanation shows."""
    model, how = heading(result.request, result.info, result.info.source)
    whole = result.timeline.peak_bytes
    return {
        "heading": (model, f"batch {result.trial.batch_size} · {how}"),
        "failure": about_failure(result),
        "peak": about_peak(result),
        "could_go": about_removable(result),
        "chart": chart_view(result),
        "parts": [{"kind": part, "label": PARTS[part], "size_bytes": size} for part, size in parts_at_peak(result)],
        "breakdown": None,
        "kinds": [
            {"kind": kind, "label": KINDS[kind], "size_bytes": size, "share": share}
            for kind, size, share in rows_of_kinds(result)
        ],
        "treemap": _treemap(result),
        "modules": [_module(one, whole) for one in result.modules[:MOST_ROWS]] + _others(result),
        "peak_bytes": whole,
        "alive": [
            {
                "part": one.part,
                "path": named(one),
                "count": one.count,
                "size_bytes": one.total_bytes,
                "words": what_is_alive(one),
            }
            for one in result.alive
        ],
        "notes": explanation_notes(result),
    }


def chart_view(result: Explanation) -> View:
    """Returns the shapes of the timeline, and on which side of the peak its label has room."""
    chart = timeline_chart(result)
    x, third = chart.peak[0], (chart.area.right - chart.area.left) / 6
    anchor = "start" if x < chart.area.left + third else "end" if x > chart.area.right - third else "middle"
    return {**vars(chart), "peak_anchor": anchor}


def picture_view(result: Explanation) -> View:
    """Returns what the picture of a timeline shows."""
    x, line, legend = SIDE, 0, []
    for part, size in parts_at_peak(result):
        label = f"{PARTS[part]} {format_bytes(size)}"
        width = LETTER_WIDTH * len(label) + BESIDE_LABEL
        if x + width > TREEMAP.width:
            x, line = SIDE, line + 1
        legend.append({"kind": part, "label": label, "x": round(x), "y": line * LINE_HEIGHT})
        x += width
    model, _ = heading(result.request, result.info, result.info.source)
    how = f"{result.request.recipe.describe(result.info.optimizer, result.info.weights_dtype)}"
    said = f"{model}, batch {result.trial.batch_size}, {how}, {result.info.device_name}, {result.info.source}"
    return {"title": said, "chart": chart_view(result), "legend": legend}


def _module(one: ModuleMemory, whole: int) -> View:
    return {
        "path": named(one),
        "class_name": one.type if one.kind != "rounding" else "",
        "label": KINDS[one.kind],
        "count": one.count,
        "size_bytes": one.total_bytes,
        "share": one.total_bytes / whole,
    }


def _others(result: Explanation) -> list[View]:
    """Returns the row of what the table leaves out."""
    left_out = result.modules[MOST_ROWS:]
    if not left_out:
        return []
    size = sum(one.total_bytes for one in left_out)
    return [
        {
            "path": f"{len(left_out)} others",
            "class_name": "",
            "label": "",
            "count": 0,
            "size_bytes": size,
            "share": size / result.timeline.peak_bytes,
        }
    ]


def _treemap(result: Explanation) -> View:
    whole = result.timeline.peak_bytes
    large = [one for one in result.modules[:MOST_TILES] if one.total_bytes >= LEAST_SHARE * whole]
    rest = whole - sum(one.total_bytes for one in large)
    shown = [(named(one), one.kind, one.count, one.total_bytes) for one in large]
    if rest > 0:
        shown.append(("all others", "other", 0, rest))
    shown.sort(key=lambda one: -one[3])
    places = laid_out([float(size) for *_, size in shown], TREEMAP)
    return {
        "width": TREEMAP.width,
        "height": TREEMAP.height,
        "title": "Treemap of the memory at the peak by module; the table below has the numbers",
        "tiles": [
            {**vars(place), "kind": kind, **_said_on(place, f"{path}, {KINDS[kind]}", count, size, whole)}
            for place, (path, kind, count, size) in zip(places, shown, strict=True)
        ],
    }


def _said_on(place: Rectangle, path: str, count: int, size: int, whole: int) -> View:
    """Returns the words of a tile, and the lines of them that it has room for."""
    times = f" x {count}" if count > 1 else ""
    share = f"{100 * size / whole:.1f} %"
    most = int((place.width - 2 * INSET) / LETTER_WIDTH)
    lines = []
    if place.height >= 2 * LINE_HEIGHT + INSET and most >= len(share):
        name = f"{path.partition(', ')[0]}{times}"
        lines = [name if len(name) <= most else f"…{name[-(most - 1) :]}", share]
    return {
        "words": f"{path}{times}: {format_bytes(size)}, {share}",
        "lines": [{"place": LINE_HEIGHT * (at + 1) + 2, "text": text} for at, text in enumerate(lines)],
    }
