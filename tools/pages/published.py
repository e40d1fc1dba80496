"""What others published and what is predicted of it: the tables of docs/published.md and docs/benchmarks.md."""

from __future__ import annotations

import csv
from collections import Counter
from statistics import median
from typing import Any

from pages.accuracy import signature
from pages.markdown import paragraph, percent, table
from pages.recorded import DATA, read

Found = dict[str, Any]
FILE, RECORD = DATA / "published_llm.csv", "published_predicted.json"
SOURCES = {
    "litgpt": "litgpt's tables of fine-tunings",
    "model docs": "transformers' pages of models",
    "tables": "tables for one GPU: Trainer on a V100, PEFT, Unsloth, LLaMA-Factory, torchtitan",
    "peft": "PEFT's comparison of methods",
}
UNITS = {
    "max_memory_allocated, GB": "GB",
    "max_memory_allocated, MB": "MB",
    "max_memory_reserved, bytes": "bytes",
    "NVML used at the end, MiB": "MiB",
}


def rows() -> list[tuple[dict[str, str], Found]]:
    """Each published row and what was found."""
    found = {(one["source"], str(one["number"])): one for one in read(RECORD)["rows"]}
    with FILE.open(encoding="utf-8", newline="") as file:
        return [(row, found[row["source"], row["number"]]) for row in csv.DictReader(file)]


def of_its_time(one: Found) -> Found:
    """The prediction with the code that a row was measured with, if there is one, or else with today's."""
    return one.get("then", one)


def errors(found: list[Found]) -> list[float]:
    """How far predictions are off, without signs, from the smallest."""
    return sorted(abs(one["off"]) for one in found if one["off"] is not None)


def summary() -> str:
    """One line for each source."""
    lines = []
    for source, name in SOURCES.items():
        mine = [one for row, one in rows() if row["source"] == source]
        lines.append([name, *_counts(mine)])
    lines.append(["all", *_counts([one for _, one in rows()])])
    header = ["source", "rows", "predicted", "explained", "stated", "median", "worst", "median, today's code"]
    return table([*header, "not stated: median, worst", "out of memory, as predicted"], lines)


def _counts(found: list[Found]) -> list[object]:
    predicted = [one for one in found if "predicted" in one]
    stated = [one for one in predicted if one["stated"]]
    then, today = errors([of_its_time(one) for one in stated]), errors(stated)
    others = errors([one for one in predicted if not one["stated"]])
    failed = [of_its_time(one) for one in predicted if one["off"] is None]
    return [
        *(len(found), len(predicted), len(found) - len(predicted), len(stated)),
        percent(median(then)) if then else "",
        percent(then[-1]) if then else "",
        percent(median(today)) if today else "",
        f"{percent(median(others))}, {percent(others[-1])}" if others else "",
        f"{sum(not one['fits'] for one in failed)} of {len(failed)}" if failed else "",
    ]


def reasons() -> str:
    """Why rows are not predicted."""
    counted = Counter((row["source"], one["reason"]) for row, one in rows() if "reason" in one)
    lines = [[SOURCES[source].partition(":")[0], reason, count] for (source, reason), count in counted.items()]
    return table(["source", "why there is no prediction", "rows"], lines)


def by_row() -> str:
    """One line for each row that is predicted."""
    lines = [
        [
            *(row["source"], row["number"], _recipe(row), row["gpu"].removeprefix("1x"), row["batch"], row["tokens"]),
            "yes" if one["stated"] else "no",
            _amount(row["memory"], row["measure"]),
            *_said(row, one),
            *(_said(row, one["then"]) if "then" in one else ("", "")),
        ]
        for row, one in rows()
        if "predicted" in one
    ]
    header = ["source", "row", "training", "GPU", "batch", "tokens", "stated", "published", "predicted", "off by"]
    return table([*header, "with the code of then", "off by"], lines)


def _recipe(row: dict[str, str]) -> str:
    if row["source"] == "tables":
        return f"bert-large, {row['table']}"
    kind = row["attention"] or (row["method"] + ("" if row["weights"] == "bf16" else f" over {row['weights']}"))
    return f"{row['model'].rpartition('/')[2]}, {kind}"


def _amount(memory: str, measure: str) -> str:
    if memory == "OOM":
        return "out of memory"
    if measure == "max_memory_reserved, bytes":
        return f"{float(memory) / 1e9:,.2f} GB"
    return f"{float(memory):,g} {UNITS[measure]}"


def _said(row: dict[str, str], one: Found) -> tuple[str, str]:
    amount = _amount(str(one["predicted"]), row["measure"]) + ("" if one["fits"] else ", does not fit")
    return amount, "" if one["off"] is None else f"{100 * one['off']:+.2f} %"


def sources() -> str:
    """Where the rows come from."""
    first: dict[tuple[str, str], dict[str, str]] = {}
    counted: Counter[tuple[str, str]] = Counter()
    for row, _ in rows():
        key = row["repository"], row["path"].partition(" (")[0]
        first.setdefault(key, row)
        counted[key] += 1
    lines = [
        [repository, path, first[repository, path]["version"], count] for (repository, path), count in counted.items()
    ]
    return table(["repository", "path", "commit or version, and date", "rows"], lines)


def made_with() -> str:
    """When and with which versions the predictions were made."""
    then = sorted({one["then"]["transformers"] for _, one in rows() if "then" in one})
    command = "`python benchmarks/published.py --then=VERSION --record`"
    return (
        signature(read(RECORD))
        + "\n\n"
        + paragraph(f"*The code of then: transformers {' and '.join(then)}; {command}.*")
    )
