"""Charts of an analysis, memory and speed by batch size, as shapes that a template draws as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from memorymark.render.rates import counted_in, rate, rate_interval
from memorymark.render.words import PARTS
from memorymark.results.analysis import Analysis
from memorymark.results.trial import Trial
from memorymark.units import gib

# Memory outside the allocator, which a cap does not count.
OUTSIDE = ("context_bytes", "nccl_bytes", "other_processes_bytes")
# The width of a digit, and the space between labels.
DIGIT_WIDTH, BETWEEN_LABELS = 7, 8
# The fraction of its slot that a column fills.
COLUMN_WIDTH = 0.7
# A batch that does not fit has a column visibly above the limit, but not so high that the others shrink to nothing.
ABOVE = (1.04, 1.2)
# The distance of the speed line from the sides, so that its dots are not cut off.
INSET = 8


@dataclass(frozen=True)
class Label:
    """A text and its coordinate, from the top or from the left."""

    place: float
    text: str


@dataclass(frozen=True)
class Area:
    """The area of a chart with values from 0 to ``top``; labels are below and to the left."""

    top: float
    width: int = 480
    height: int = 210
    right: int = 470
    above: int = 12
    below: int = 172
    gap: int = 6

    @property
    def across(self) -> list[Label]:
        """The labels of the vertical axis: round numbers up to the top."""
        return [Label(self.y(value), f"{value:,.10g}") for value in round_ticks(self.top)]

    @property
    def left(self) -> int:
        """The left edge of the chart, right of the longest label."""
        return DIGIT_WIDTH * max(len(label.text) for label in self.across) + 2 * self.gap

    def y(self, value: float) -> float:
        """Returns the vertical coordinate of a value."""
        return self.below - (self.below - self.above) * value / self.top


@dataclass(frozen=True)
class Frame:
    """A chart's title, area and labels below; ``across`` says what these are."""

    title: str
    area: Area
    below: list[Label]
    across: str = "batch size"


@dataclass(frozen=True)
class Piece:
    """A segment of a column. ``kind`` is the kind of memory, or why the batch failed."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    fits: bool


@dataclass(frozen=True)
class MemoryChart:
    """Columns by batch size, and the vertical coordinate of the memory limit."""

    frame: Frame
    pieces: list[Piece]
    limit_y: float


@dataclass(frozen=True)
class Dot:
    """A timed batch; ``kind`` says whether it is today's, the recommended or the largest."""

    x: float
    y: float
    kind: str | None


@dataclass(frozen=True)
class ThroughputChart:
    """A line of dots and, for predictions, the band of their intervals."""

    frame: Frame
    dots: list[Dot]
    band: list[tuple[float, float]]

    @property
    def line(self) -> list[tuple[float, float]]:
        """The line through the dots."""
        return [(dot.x, dot.y) for dot in self.dots]


def memory_chart(result: Analysis) -> MemoryChart:
    """Makes a column for each timed batch, by kind of memory, one for the first that does not fit, and the limit."""
    limit = gib(result.target_bytes)
    timed = [trial for trial in result.curve if trial.fits and trial.samples_per_second]
    failing = [trial for trial in result.curve if not trial.fits and trial.failure is not None][:1]
    columns = [*timed, *failing]
    heights = [_height(result, trial, limit) for trial in columns]
    area = Area(max(limit, *heights) * 1.02)
    room = (area.right - area.left) / len(columns)
    width = COLUMN_WIDTH * room
    pieces: list[Piece] = []
    labels = []
    for index, (trial, height) in enumerate(zip(columns, heights, strict=True)):
        x = area.left + room * index + (room - width) / 2
        labels.append(Label(x + width / 2, str(trial.batch_size)))
        base = 0.0
        for kind, size in _layers(result, trial, height):
            bottom, top = area.y(base), area.y(base + size)
            pieces.append(Piece(x, top, width, max(bottom - top, 0.0), kind, trial.fits))
            base += size
    held = "reserved" if result.info.capped else "that the GPU holds"
    title = f"GiB {held} at the peak, by batch size; the dashed line is the limit: {limit:.2f}"
    return MemoryChart(Frame(title, area, apart(labels)), pieces, area.y(limit))


def _height(result: Analysis, trial: Trial, limit: float) -> float:
    """Returns the height of a column: the memory held or, for a batch that does not fit, more than the limit."""
    held = gib(result.info.held_bytes(trial))
    if trial.fits or trial.failure is None or trial.failure.kind != "memory":
        return held
    needed = limit + gib(trial.failure.shortfall_bytes or 0)
    return min(max(needed, ABOVE[0] * limit), ABOVE[1] * limit)


def _layers(result: Analysis, trial: Trial, height: float) -> Iterable[tuple[str, float]]:
    """Returns the segments of a column, from the bottom."""
    if trial.failure is not None:
        return [(trial.failure.kind, height)]
    if trial.breakdown is None:
        return [("held", height)]
    left_out = OUTSIDE if result.info.capped else ()
    return [(name, gib(getattr(trial.breakdown, name))) for name in PARTS if name not in left_out]


def throughput_chart(result: Analysis) -> ThroughputChart:
    """Makes the chart of throughput by batch size, with intervals."""
    timed = [trial for trial in result.curve if trial.samples_per_second]
    kinds = {result.max_batch_size: "maximum", result.current_batch_size: "today"}
    if result.recommended is not None:
        kinds[result.recommended.batch_size] = "recommended"
    area = Area(max(max(_between(trial)) for trial in timed) * 1.05)
    x = _batch_axis(area, timed[0].batch_size, timed[-1].batch_size)
    dots = [Dot(x(trial.batch_size), area.y(rate(trial)), kinds.get(trial.batch_size)) for trial in timed]
    band: list[tuple[float, float]] = []
    if any(trial.intervals for trial in timed):
        band += [(x(trial.batch_size), area.y(_between(trial)[1])) for trial in timed]
        band += [(x(trial.batch_size), area.y(_between(trial)[0])) for trial in reversed(timed)]
    sizes = _powers_of_two(timed[0].batch_size, timed[-1].batch_size)
    labels = [Label(x(size), str(size)) for size in sizes]
    title = f"{counted_in(timed)} per second by batch size"
    return ThroughputChart(Frame(title, area, apart(labels)), dots, band)


def _batch_axis(area: Area, smallest: int, largest: int) -> Callable[[int], float]:
    """Returns a function from batch size to horizontal coordinate, on a logarithmic scale."""
    low, high = log2(smallest), log2(largest)
    left, right = area.left + INSET, area.right - INSET

    def x(batch_size: int) -> float:
        share = (log2(batch_size) - low) / (high - low) if high > low else 0.5
        return left + (right - left) * share

    return x


def _between(trial: Trial) -> tuple[float, float]:
    return rate_interval(trial) or (rate(trial), rate(trial))


def round_ticks(top: float) -> list[float]:
    """Returns four to six round numbers from 0 up to ``top``."""
    rough = top / 5
    size = 10.0 ** floor(log10(rough))
    step = size * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough)
    return [index * step for index in range(floor(top / step) + 1)]


def _powers_of_two(low: int, high: int) -> list[int]:
    powers = [2**power for power in range(ceil(log2(low)), floor(log2(high)) + 1)]
    return powers or [low]


def apart(labels: Sequence[Label]) -> list[Label]:
    """Drops labels that would overlap; the last one stays."""
    kept: list[Label] = []
    for label in reversed(labels):
        room = DIGIT_WIDTH * (len(label.text) + len(kept[-1].text)) / 2 + BETWEEN_LABELS if kept else 0
        if not kept or kept[-1].place - label.place >= room:
            kept.append(label)
    return kept[::-1]
