"""The tables of docs/accuracy.md about the H200 as an unknown GPU, before and after calibrating."""

from __future__ import annotations

from statistics import median
from typing import Any

from pages.markdown import paragraph, percent, table
from pages.recorded import read

PREDICTIONS = {
    "roofline": "plain roofline",
    "roofline_calibrated": "plain roofline, calibrated",
    "rules": "MemoryMark's rules, fitted to an H200",
    "rules_calibrated": "MemoryMark's rules, calibrated",
}


def _pairs() -> list[dict[str, Any]]:
    pairs: list[dict[str, Any]] = read("h200_calibrated.json")["pairs"]
    return pairs


def _errors(name: str, *, of_gpu: bool = False) -> list[float]:
    """The sizes of the errors of a prediction, the smallest first; ``of_gpu``: without those the host decides."""
    found = [
        abs(error)
        for pair in _pairs()
        for error, counts in zip(pair[name], pair["of_gpu"], strict=True)
        if counts or not of_gpu
    ]
    return sorted(found)


def summary() -> str:
    """How far each prediction is off."""
    rows = []
    for name, label in PREDICTIONS.items():
        every, of_gpu = _errors(name), _errors(name, of_gpu=True)
        by_pair = median(median(map(abs, pair[name])) for pair in _pairs())
        numbers = (median(every), every[int(0.9 * (len(every) - 1))], median(of_gpu), by_pair)
        rows.append([label, *(percent(number, 1) for number in numbers)])
    return table(["prediction", "median", "90th percentile", "median of the GPU's steps", "median of pairs"], rows)


def by_pair() -> str:
    """The median error of each pair."""
    rows = [
        [
            pair["workload"],
            pair["recipe"],
            len(pair["rules"]),
            *(percent(_middle(pair[name]), 1) for name in PREDICTIONS),
        ]
        for pair in _pairs()
    ]
    return table(["workload", "recipe", "steps", *PREDICTIONS.values()], rows)


def _middle(errors: list[float]) -> float:
    return median(map(abs, errors))


def made_with() -> str:
    """Of what, and with which versions."""
    document = read("h200_calibrated.json")
    made, pairs = document["made_with"], _pairs()
    steps, of_gpu = len(_errors("rules")), len(_errors("rules", of_gpu=True))
    return paragraph(
        f"{len(pairs)} pairs, {steps} steps, of which the GPU decides {of_gpu}: in those, the host takes less than",
        f"half of the time. Of the profile's {document['operations']} operations {document['counted']} count.",
        f"Made with `{document['command']}`, torch {made['torch']}, memorymark {made['memorymark']}.",
    )
