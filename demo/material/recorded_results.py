"""Reads recorded results: the tables of docs/benchmarks.md and the analyses kept with the tests."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
DATA = ROOT / "tests" / "data"
RECORDINGS = ROOT / "demo" / "recordings"
# The machine is named once, at the top of the page.
MACHINE = re.compile(r"One (NVIDIA \w+) \(.*?torch (\d+\.\d+)", re.DOTALL)
DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Section:
    """A section of the benchmarks: its first date and its tables, each row by column."""

    date: str
    text: str
    tables: list[list[dict[str, str]]]

    @property
    def citation(self) -> str:
        """Where and when it was measured."""
        gpu, torch = gpu_and_torch()
        return f"Measured on an {gpu}, torch {torch}, {self.date}"


@cache
def section(heading: str) -> Section:
    """Returns the section of docs/benchmarks.md with this heading."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    found = DATE.search(text)
    if found is None:
        raise ValueError(f"no date in the section {heading!r}")
    return Section(found.group(), text, [_rows(block) for block in blocks])


@cache
def gpu_and_torch() -> tuple[str, str]:
    """Returns the GPU of the benchmarks and the version of torch on it."""
    found = MACHINE.search(PAGE.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{PAGE} does not name its machine")
    return found.group(1), found.group(2)


@cache
def analysis(name: str) -> dict[str, Any]:
    """Returns an analysis that a GPU ran, as kept with the tests."""
    return json.loads((DATA / f"h200_{name}.json").read_text(encoding="utf-8"))


@cache
def predictions() -> dict[str, Any]:
    """Returns the errors of all predictions that were compared with a GPU."""
    return json.loads((DATA / "h200_predicted.json").read_text(encoding="utf-8"))


@cache
def recorded_on() -> str:
    """Returns the day on which the analyses kept with the tests ran."""
    found = DATE.search((DATA / "README.md").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError("tests/data/README.md does not say when it was recorded")
    return found.group()


@cache
def recording(name: str) -> dict[str, Any]:
    """Returns one of the demo's own recordings."""
    return json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))


def number(text: str) -> float:
    """Reads the number at the start of a cell: ``1,826``, ``3.44 %``, ``11.7x``."""
    return float(re.match(r"[-+]?[\d,.]*\d", text.strip("* ")).group().replace(",", ""))  # type: ignore[union-attr]


def _rows(block: str) -> list[dict[str, str]]:
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.strip().splitlines()]
    header, _, *rows = lines
    filled: list[dict[str, str]] = []
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        if filled:  # an empty first cell means the one above
            first = header[:2]
            cells |= {name: filled[-1][name] for name in first if not cells[name] and not cells[header[0]]}
        filled.append(cells)
    return filled
