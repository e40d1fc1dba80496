"""The memory of a step as a chart: stacked areas over its phases, as shapes and as columns of characters. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memorymark.render.explanation_words import STACK, short_name
from memorymark.render.html_charts import DIGIT_WIDTH, Area, Label
from memorymark.results.explanation import Explanation, Timeline
from memorymark.units import format_bytes, gib

# How many strips of the chart say what runs there.
STRIPS = 240
WIDTH, HEIGHT, BELOW = 900, 330, 280
ROUNDING = "temporaries_bytes"
Scale = Callable[[float], float]
"""From a number of events to a horizontal coordinate."""


@dataclass(frozen=True)
class Layer:
    """The area of one part of memory: its outline."""

    kind: str
    outline: list[tuple[float, float]]


@dataclass(frozen=True)
class Strip:
    """A vertical strip, and what runs there."""

    x: float
    width: float
    words: str


@dataclass(frozen=True)
class PhaseLine:
    """Where a phase ends, and its name in the middle."""

    x: float
    label: Label


@dataclass(frozen=True)
class TimelineChart:
    """Stacked areas, the peak, and the memory that there is, if it is in sight."""

    area: Area
    title: str
    layers: list[Layer]
    phases: list[PhaseLine]
    strips: list[Strip]
    peak: tuple[float, float]
    peak_label: str
    limit_y: float | None


def stacked(timeline: Timeline) -> list[tuple[str, list[int]]]:
    """Returns the parts from the bottom, with rounding among the temporaries."""
    found = []
    for part in STACK:
        if part == ROUNDING and (part in timeline.parts or timeline.rounding_bytes):
            sizes = timeline.parts.get(part, [0] * len(timeline.moments))
            found.append((part, [size + timeline.rounding_bytes for size in sizes]))
        elif part in timeline.parts:
            found.append((part, timeline.parts[part]))
    return found


def timeline_chart(result: Explanation) -> TimelineChart:
    """Makes the chart of a step."""
    timeline = result.timeline
    peak = gib(timeline.peak_bytes)
    area = Area(peak * 1.12, WIDTH, HEIGHT, right=WIDTH - 10, above=14, below=BELOW)
    span = max(timeline.events, 1)

    def x(moment: float) -> float:
        return area.left + (area.right - area.left) * moment / span

    base = [0.0] * len(timeline.moments)
    layers = []
    for part, sizes in stacked(timeline):
        top = [low + gib(size) for low, size in zip(base, sizes, strict=True)]
        upper = _steps(timeline.moments, [area.y(value) for value in top], x)
        lower = _steps(timeline.moments, [area.y(value) for value in base], x)
        layers.append(Layer(part, [*upper, *reversed(lower)]))
        base = top
    limit = gib(result.info.capacity_bytes)
    return TimelineChart(
        area=area,
        title=f"GiB alive through one step at batch {result.trial.batch_size}, by part",
        layers=layers,
        phases=list(_phases(timeline, x)),
        strips=list(_strips(timeline, x)),
        peak=(x(timeline.moments[timeline.peak]), area.y(peak)),
        peak_label=f"peak {format_bytes(timeline.peak_bytes)}",
        limit_y=area.y(limit) if limit <= area.top else None,
    )


def _steps(moments: Sequence[int], heights: Sequence[float], at: Scale) -> list[tuple[float, float]]:
    """Returns the corners of a line that keeps each height until the next moment."""
    places: list[tuple[float, float]] = []
    for index, (moment, height) in enumerate(zip(moments, heights, strict=True)):
        if index and heights[index - 1] != height:
            places.append((at(moment), heights[index - 1]))
            places.append((at(moment), height))
        elif index in (0, len(moments) - 1):
            places.append((at(moment), height))
    return places


def _phases(timeline: Timeline, at: Scale) -> Iterator[PhaseLine]:
    end_of_label = 0.0
    for span in timeline.phases:
        middle = at((span.start + span.end) / 2)
        half = DIGIT_WIDTH * len(span.name) / 2
        shown = middle - half >= end_of_label
        end_of_label = middle + half if shown else end_of_label
        yield PhaseLine(at(span.end), Label(middle, span.name if shown else ""))


def _strips(timeline: Timeline, at: Scale) -> Iterator[Strip]:
    totals = timeline.totals
    for start, stop in stretches(len(timeline.moments), STRIPS):
        highest = max(range(start, stop), key=totals.__getitem__)
        moment, following = timeline.moments[start], timeline.moments[min(stop, len(timeline.moments) - 1)]
        running = ", ".join(filter(None, (short_name(timeline.operations[highest]), timeline.modules[highest])))
        phase = timeline.phase_at(timeline.moments[highest]) or "before the step"
        words = f"{format_bytes(totals[highest])} in the {phase}{': ' if running else ''}{running}"
        yield Strip(at(moment), max(at(following) - at(moment), 0.5), words)


def stretches(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yields up to so many ranges, of about the same length, that cover all positions."""
    number = min(count, most)
    ends = [count * place // number for place in range(number + 1)]
    yield from ((start, stop) for start, stop in pairwise(ends) if stop > start)


def columns(timeline: Timeline, width: int, height: int) -> list[list[str | None]]:
    """Returns the part at each height of each column, from the bottom; a column shows its highest moment."""
    totals, layers = timeline.totals, stacked(timeline)
    peak = timeline.peak_bytes
    found = []
    for start, stop in _by_time(timeline, width):
        highest = max(range(start, stop), key=totals.__getitem__)
        column: list[str | None] = [None] * height
        base = 0
        for part, sizes in layers:
            low, base = round(height * base / peak), base + sizes[highest]
            for row in range(low, min(round(height * base / peak), height)):  # the rounding may be negative
                column[row] = part
        found.append(column)
    return found


def _by_time(timeline: Timeline, width: int) -> Iterator[tuple[int, int]]:
    """Yields the positions of the moments in each column; one without any has that before."""
    moments, start = timeline.moments, 0
    for column in range(width):
        until = (timeline.events + 1) * (column + 1) / width
        stop = start
        while stop < len(moments) and moments[stop] < until:
            stop += 1
        yield (start, stop) if stop > start else (max(start - 1, 0), max(start, 1))
        start = stop
