"""Charts of an analysis as SVG: memory and speed by batch size. No scripts; colours of text come from the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log2, log10

from memorymark.analysis import Analysis
from memorymark.render.words import PARTS
from memorymark.trial import Trial
from memorymark.units import gib

RED, GREEN, BLUE, AMBER = "#c62828", "#2e7d32", "#1565c0", "#b26a00"
COLORS = ("#1565c0", "#6a1b9a", "#ef6c00", "#2e7d32", "#00838f", "#9e9d24", "#757575", "#bdbdbd")
# What a cap on the allocator does not count.
OUTSIDE = ("context_bytes", "other_processes_bytes")
WIDTH, HEIGHT = 480, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 38
# A digit of a label is so wide, and labels keep this much room between them.
DIGIT_WIDTH, BETWEEN_LABELS = 7, 8
# A column that does not fit ends visibly above the limit, and not so far that the others shrink to nothing.
ABOVE = (1.04, 1.2)


def memory_chart(result: Analysis) -> str:
    """A column for each batch that was timed, by parts, and the first that does not fit, against all there is."""
    limit = gib(result.target_bytes)
    timed = [trial for trial in result.curve if trial.fits and trial.samples_per_second]
    failing = [trial for trial in result.curve if not trial.fits and trial.failure is not None][:1]
    columns = [*timed, *failing]
    heights = [_height(result, trial, limit) for trial in columns]
    top = max(limit, *heights) * 1.02
    box = _Box(top)
    slot = box.width / len(columns)
    shapes, labels = [], []
    for index, (trial, height) in enumerate(zip(columns, heights, strict=True)):
        x, width = LEFT + slot * (index + 0.15), slot * 0.7
        labels.append((x + width / 2, str(trial.batch_size)))
        if not trial.fits:
            color = RED if trial.failure and trial.failure.kind == "memory" else AMBER
            shapes.append(_rect(x, box.y(height), width, box.y(0) - box.y(height), color, opacity=0.4))
            continue
        base = 0.0
        for size, color in _layers(result, trial):
            shapes.append(_rect(x, box.y(base + size), width, box.y(base) - box.y(base + size), color))
            base += size
    y = box.y(limit)
    line = (
        f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
        'stroke-dasharray="5 4"/>'
    )
    title = f"GiB {'reserved' if result.info.capped else 'that the GPU holds'} at the peak, by batch size"
    return _svg(f"{title}; the dashed line is all there is: {limit:.2f}", box, [*shapes, line, _batch_labels(labels)])


def _height(result: Analysis, trial: Trial, limit: float) -> float:
    """As high as a column is: what is held, or, of one that does not fit, more than there is."""
    held = gib(result.info.held_bytes(trial))
    if trial.fits or trial.failure is None or trial.failure.kind != "memory":
        return held
    needed = limit + gib(trial.failure.shortfall_bytes or 0)
    return min(max(needed, ABOVE[0] * limit), ABOVE[1] * limit)


def _layers(result: Analysis, trial: Trial) -> Iterable[tuple[float, str]]:
    if trial.breakdown is None:
        return [(gib(result.info.held_bytes(trial)), COLORS[0])]
    left_out = OUTSIDE if result.info.capped else ()
    parts = zip(PARTS, COLORS, strict=True)
    return [(gib(getattr(trial.breakdown, name)), color) for name, color in parts if name not in left_out]


def throughput_chart(result: Analysis) -> str:
    """Samples per second by batch size, with what the true numbers should lie between."""
    timed = [trial for trial in result.curve if trial.samples_per_second]
    marks = {result.max_batch_size: GREEN, result.current_batch_size: RED}
    if result.recommended is not None:
        marks[result.recommended.batch_size] = BLUE
    highest = max(max(_between(trial)) for trial in timed)
    box = _Box(highest * 1.05)
    low, high = log2(timed[0].batch_size), log2(timed[-1].batch_size)

    def x(batch_size: float) -> float:
        share = (log2(batch_size) - low) / (high - low) if high > low else 0.5
        return LEFT + 8 + (box.width - 16) * share

    def points(pairs: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{x(size):.1f},{box.y(speed):.1f}" for size, speed in pairs)

    speeds = [(trial.batch_size, trial.samples_per_second or 0.0) for trial in timed]
    shapes = []
    if any(trial.intervals for trial in timed):
        upper = [(trial.batch_size, _between(trial)[1]) for trial in timed]
        lower = [(trial.batch_size, _between(trial)[0]) for trial in reversed(timed)]
        shapes.append(f'<polygon points="{points([*upper, *lower])}" fill="{BLUE}" opacity=".15"/>')
    shapes.append(f'<polyline points="{points(speeds)}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    shapes += [
        f'<circle cx="{x(size):.1f}" cy="{box.y(speed):.1f}" r="{5 if size in marks else 2.5}" '
        f'fill="{marks.get(size, BLUE)}"/>'
        for size, speed in speeds
    ]
    ticks = _powers_of_two(timed[0].batch_size, timed[-1].batch_size)
    labels = [(x(size), str(size)) for size in ticks]
    return _svg("samples per second by batch size", box, [*shapes, _batch_labels(labels)])


def _between(trial: Trial) -> tuple[float, float]:
    speed = trial.samples_per_second or 0.0
    return (trial.intervals or {}).get("samples_per_second", (speed, speed))


@dataclass(frozen=True)
class _Box:
    """Where a chart draws, from 0 to ``top``."""

    top: float
    width: float = WIDTH - LEFT - RIGHT

    def y(self, value: float) -> float:
        """How far down a value lies."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / self.top)


def round_ticks(top: float) -> list[float]:
    """Round numbers from 0 up to ``top``, four to six of them."""
    rough = top / 5
    size = 10.0 ** floor(log10(rough))
    step = size * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough)
    return [index * step for index in range(floor(top / step) + 1)]


def _powers_of_two(low: int, high: int) -> list[int]:
    powers = [2**power for power in range(ceil(log2(low)), floor(log2(high)) + 1)]
    return powers or [low]


def apart(labels: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """As many labels as stand beside each other without touching; the last one stays."""
    kept: list[tuple[float, str]] = []
    for place, text in reversed(labels):
        room = DIGIT_WIDTH * (len(text) + len(kept[-1][1])) / 2 + BETWEEN_LABELS if kept else 0
        if not kept or kept[-1][0] - place >= room:
            kept.append((place, text))
    return kept[::-1]


def _batch_labels(labels: Sequence[tuple[float, str]]) -> str:
    shown = "".join(
        f'<text class="tick" x="{place:.1f}" y="{HEIGHT - 22}" text-anchor="middle">{text}</text>'
        for place, text in apart(labels)
    )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    return f'{shown}<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">batch size</text>'


def _svg(title: str, box: _Box, content: Iterable[str]) -> str:
    grid = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{box.y(value):.1f}" y2="{box.y(value):.1f}" '
        'stroke="currentColor" opacity=".15"/>'
        f'<text x="{LEFT - 6}" y="{box.y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>'
        for value in round_ticks(box.top)
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" '
        f'fill="currentColor" role="img" aria-label="{escape(title)}">{grid}{"".join(content)}</svg></figure>'
    )


def _rect(x: float, y: float, width: float, height: float, color: str, opacity: float = 1.0) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {size} fill="{color}" opacity="{opacity:g}"/>'
