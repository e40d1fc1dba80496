"""The tables of docs/comparison.md: the search against those of other tools."""

from __future__ import annotations

import json
from typing import Any

from pages.markdown import MODELS, paragraph, table
from pages.recorded import DATA, GIB, read, timed_trials

NAMES = {
    "ours": "MemoryMark",
    "proof alone": "proof alone",
    "accelerate": "Accelerate",
    "lightning power": "Lightning power",
    "lightning binsearch": "Lightning binsearch",
}
PEERS = ["accelerate", "lightning power", "lightning binsearch"]
# The smallest batch of the estimates: below it, the update decides and all peaks are alike.
FIRST_SHOWN = 8
Cases = dict[tuple[str, str], dict[str, dict[str, Any]]]


def cases() -> Cases:
    """The results by contender, for each model and recipe."""
    found: Cases = {}
    for result in read("h200_search_vs_peers.json")["results"]:
        found.setdefault((result["model"], result["recipe"]), {})[result["contender"]] = result
    return found


def answers() -> str:
    """What each tool answered, and after how long."""
    rows = []
    for (model, recipe), results in cases().items():
        told = [f"{results[name]['found']} in {results[name]['seconds']:.1f} s" for name in ("ours", *PEERS)]
        rows.append([f"{MODELS[model]} {recipe}", f"**{told[0]}**", *told[1:]])
    return table(["", *(NAMES[name] for name in ("ours", *PEERS))], rows)


def details() -> str:
    """Everything that was recorded."""
    header = ["model", "recipe", "search", "found", "against ours", "trials"]
    header += ["search s", "ours is faster by", "from config s", "ours is faster by"]
    rows = []
    for (model, recipe), results in cases().items():
        for name, result in results.items():
            first = [MODELS[model], recipe, "**MemoryMark**"] if name == "ours" else ["", "", NAMES[name]]
            rows.append([*first, *figures(result, None if name == "ours" else results["ours"])])
    return table(header, rows)


def figures(result: dict[str, Any], ours: dict[str, Any] | None) -> list[object]:
    """A result, and how it compares with ours, unless it is ours."""
    away = ours is not None and result["found"] != ours["found"]
    off = f"{100 * (result['found'] / ours['found'] - 1):+.1f} %" if ours and away else ""
    line: list[object] = [result["found"], off, result["trials"]]
    for clock in ("seconds", "from_config"):
        line += [f"{result[clock]:.2f}", f"{result[clock] / ours[clock]:.1f}x" if ours else ""]
    return line


def lead() -> str:
    """How much faster than the next best it was."""
    leads = []
    for results in cases().values():
        next_best = min(results[name]["seconds"] for name in PEERS)
        leads.append(next_best / results["ours"]["seconds"])
    return paragraph(
        f"MemoryMark's search was the fastest in all {len(leads)} cases, {min(leads):.1f} to {max(leads):.1f} times as",
        "fast as the next best, and found the largest batch that runs two steps in each.",
    )


def estimates() -> str:
    """Peaks of BERT as measured, as predicted, and by the weights alone."""
    lines = (DATA / "h200_truth.jsonl").read_text(encoding="utf-8").splitlines()
    truth = next(pair for pair in map(json.loads, lines) if (pair["workload"], pair["recipe"]) == ("bert", "fp32"))
    predicted = next(
        pair for pair in read("h200_predicted.json")["pairs"] if (pair["workload"], pair["recipe"]) == ("bert", "fp32")
    )
    weights = timed_trials("h200_bert_fp32.json")[0]["breakdown"]["weights_bytes"]
    rows = []
    for row, error in zip(truth["rows"], predicted["allocated"], strict=True):
        if row["batch_size"] >= FIRST_SHOWN:
            sizes = [row["allocated"], row["allocated"] * (1 + error), 4 * weights]
            rows.append([row["batch_size"], *(f"{size / GIB:.2f}" for size in sizes)])
    return table(["batch", "measured", "MemoryMark, predicted", "4 x weights"], rows)


def made_with() -> str:
    """Where, when and with which versions."""
    record = read("h200_search_vs_peers.json")
    made = record["made_with"]
    versions = ", ".join(f"{name} {made[name]}" for name in ("torch", "transformers", "accelerate", "lightning"))
    machine = made["machine"].removeprefix("one ")
    return paragraph(
        f"*{machine}, allocator capped at {record['cap_gib']} GiB, {versions}, Python {made['python']},",
        f"{made['date']}; `{record['command']}`.*",
    )
