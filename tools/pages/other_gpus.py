"""Step times that others published and what is predicted of them: the tables of docs/accuracy.md."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from pages.accuracy import signature
from pages.markdown import paragraph, percent, table
from pages.recorded import DATA, read

FILE, RECORD = DATA / "published_steps.csv", "published_steps_predicted.json"
SOURCES = {"neusight": "NeuSight", "lambda": "Lambda", "nvidia": "NVIDIA"}
HEADER = ["rows", "median error", "signed median", "within 15 %", "within 25 %", "within 30 %", "worst"]
IN_INTERVAL = "in the interval"
SETS = {False: "fitted", True: "held out"}
# Containers of NVIDIA with torch from this version on; from 2022 on, that is.
RECENT = (1, 13)


@dataclass(frozen=True)
class Row:
    """A published step time and its prediction."""

    published: dict[str, str]
    found: dict[str, Any]

    @property
    def ratio(self) -> float:
        """The predicted time over the published one."""
        return float(self.found["seconds"]) / float(self.published["seconds"])

    @property
    def covered(self) -> bool:
        """Whether the published time lies in the interval of the prediction."""
        low, high = self.found["interval"]
        return low <= float(self.published["seconds"]) <= high

    @property
    def recent(self) -> bool:
        """Whether it was measured with torch 1.13 or later."""
        version = self.published["software"].removeprefix("torch ").split(".")
        return version[0].isdigit() and (int(version[0]), int(version[1])) >= RECENT


def rows() -> list[Row]:
    """Every row that has a prediction."""
    with FILE.open(encoding="utf-8", newline="") as file:
        published = {(row["source"], int(row["number"])): row for row in csv.DictReader(file)}
    return [Row(published[one["source"], one["number"]], one) for one in read(RECORD)["rows"]]


def numbers(chosen: list[Row]) -> list[object]:
    """How many rows, how far they are off, and how many lie in the interval."""
    errors = sorted(abs(row.ratio - 1) for row in chosen)
    within = [percent(sum(error <= most for error in errors) / len(errors), 0) for most in (0.15, 0.25, 0.30)]
    signed = f"{100 * (median(row.ratio for row in chosen) - 1):+.1f} %"
    covered = percent(sum(row.covered for row in chosen) / len(chosen), 0)
    return [len(chosen), percent(median(errors), 1), signed, *within, percent(errors[-1], 1), covered]


def summary() -> str:
    """How far predictions are off for each source, on GPUs that were fitted on and on others."""
    everything, lines = rows(), []
    for source, name in SOURCES.items():
        for held_out, which in SETS.items():
            chosen = [r for r in everything if r.found["source"] == source and r.found["held_out"] is held_out]
            for family in sorted({row.found["family"] for row in chosen}):
                of_family = [row for row in chosen if row.found["family"] == family]
                lines.append([name, f"{family}s", which, *numbers(of_family)])
    for held_out, which in SETS.items():
        chosen = [row for row in everything if row.found["held_out"] is held_out]
        lines.append(["all", "", which, *numbers(chosen)])
        recent = [row for row in chosen if row.found["source"] == "lambda" and row.recent]
        lines.append(["Lambda, torch 1.13 and later", "", which, *numbers(recent)])
    theirs = sorted(
        abs(float(row.published["theirs"]) / float(row.published["seconds"]) - 1)
        for row in everything
        if row.published["theirs"]
    )
    note = paragraph(
        f"NeuSight's own predictions of the {len(theirs)} rows above: median error {percent(median(theirs), 1)}, worst",
        f"{percent(theirs[-1], 1)}.",
    )
    return f"{table(['source', 'models', 'GPUs', *HEADER, IN_INTERVAL], lines)}\n\n{note}"


def by_gpu() -> str:
    """The same for each GPU."""
    everything = rows()
    key: Callable[[Row], tuple[bool, str]] = lambda row: (row.found["held_out"], row.found["gpu"])  # noqa: E731
    lines = [
        [gpu.replace("_", " "), SETS[held_out], *numbers([row for row in everything if key(row) == (held_out, gpu)])]
        for held_out, gpu in sorted({key(row) for row in everything})
    ]
    return table(["GPU", "set", *HEADER, IN_INTERVAL], lines)


def made_with() -> str:
    """When and with which versions the predictions were made, and what has none."""
    document = read(RECORD)
    left_out = "; ".join(f"{count} because of {reason}" for reason, count in sorted(document["reasons"].items()))
    return f"{signature(document)}\n\n{paragraph(f'Rows without a prediction: {left_out}.')}"
