"""Charts as SVG files that are readable on light and dark pages: each brings its own background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 520, 330
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 76, 44
STYLE = """
  .panel { fill: #ffffff; stroke: #d5dae1 } text { fill: #3c4654; font: 13px system-ui, sans-serif }
  .title { fill: #16202c; font-weight: 600; font-size: 15px } .grid { stroke: #e3e7ec } .mark { stroke: #3c4654 }
  .blue { fill: #1565c0; stroke: #1565c0 } .green { fill: #2e7d32; stroke: #2e7d32 }
  .orange { fill: #ef6c00; stroke: #ef6c00 } .purple { fill: #8e24aa; stroke: #8e24aa }
  .teal { fill: #00838f; stroke: #00838f } .olive { fill: #9e9d24; stroke: #9e9d24 }
  .gray { fill: #757575; stroke: #757575 }
  rect.area, path.area { stroke: none } path.line { fill: none; stroke-width: 2.5 } .dashed { stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .panel { fill: #1b2028; stroke: #3a424e } text { fill: #c3cad4 } .title { fill: #f1f4f8 } .grid { stroke: #2f3742 }
    .mark { stroke: #c3cad4 } .blue { fill: #5c9ded; stroke: #5c9ded } .green { fill: #66bb6a; stroke: #66bb6a }
    .orange { fill: #ffa040; stroke: #ffa040 } .purple { fill: #ce7ae0; stroke: #ce7ae0 }
    .teal { fill: #4fc0cc; stroke: #4fc0cc } .olive { fill: #d0cf5c; stroke: #d0cf5c }
    .gray { fill: #a3a9b2; stroke: #a3a9b2 } path.line { fill: none }
  }
"""


@dataclass
class Chart:
    """A chart whose values run from 0 to ``top``; ``finding`` is what it shows, for those who cannot see it."""

    title: str
    finding: str
    top: float
    shapes: list[str] = field(default_factory=list)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top

    def x(self, share: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * share

    def text(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> None:
        styled = f' class="{kind}"' if kind else ""
        self.shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{styled}>{escape(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.shapes.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def rectangle(self, x: float, y: float, width: float, height: float, color: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.shapes.append(f'<rect {place} class="area {color}"/>')

    def path(self, points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(f'<path d="M{places}{"Z" if closed else ""}" class="{kind}"/>')

    def dot(self, x: float, y: float, color: str) -> None:
        self.shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="{color}"/>')

    def axis(self, values: Iterable[float], unit: str) -> None:
        """Horizontal lines, each with its value, and the unit above them."""
        for value in values:
            self.line(LEFT, self.y(value), WIDTH - RIGHT, self.y(value), "grid")
            self.text(LEFT - 8, self.y(value) + 4, f"{value:g}", "end")
        self.text(LEFT - 8, TOP - 12, unit, "end")

    def below(self, text: str) -> None:
        """What the horizontal axis shows."""
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, text, "middle")

    def legend(self, entries: dict[str, str]) -> None:
        """Colours and what they stand for, under the title."""
        x = float(LEFT)
        for label, color in entries.items():
            self.rectangle(x, 38, 11, 11, color)
            self.text(x + 16, 48, label)
            x += 34 + 6.9 * len(label)

    def svg(self) -> str:
        """The text of the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'role="img" aria-label="{escape(self.finding)}">'
        )
        panel = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" class="panel"/>'
        title = f'<text x="16" y="25" class="title">{escape(self.title)}</text>'
        parts = [head, f"<style>{STYLE}</style>", panel, title, *self.shapes, "</svg>"]
        return "\n".join(parts) + "\n"
