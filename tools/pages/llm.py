"""The tables of fine-tunings of language models in docs/accuracy.md, from the errors that were recorded."""

from __future__ import annotations

from statistics import median
from typing import Any

from pages.accuracy import signature, within
from pages.markdown import percent, table
from pages.recorded import read

FILE = "h200_predicted_llm.json"
SETS = {False: "looked at", True: "held out"}
NUMBERS = {"allocated": "peak allocated", "reserved": "peak reserved"}


def cases() -> list[dict[str, Any]]:
    """The recorded cases, those that were looked at first."""
    return sorted(read(FILE)["cases"], key=lambda one: one["held_out"])


def by_case() -> str:
    """One line for each fine-tuning."""

    def worst(errors: list[float]) -> str:
        return f"{100 * max(errors, key=abs):+.2f} %" if errors else ""

    rows = [
        [
            *(one["model"], one["name"], f"{one['seq_len']:,}", SETS[one["held_out"]]),
            *(worst(one[number]) for number in NUMBERS),
            *(f"{one['cap_gib']} GiB", one["largest"], one["predicted"]),
        ]
        for one in cases()
    ]
    header = ["model", "recipe", "tokens", "set", "allocated, worst", "reserved, worst", "under", "largest batch"]
    return table([*header, "predicted"], rows)


def summary() -> str:
    """How far each number is off in each set."""
    rows = []
    for held_out, name in SETS.items():
        found = [one for one in cases() if one["held_out"] is held_out]
        errors = {label: [error for one in found for error in one[number]] for number, label in NUMBERS.items()}
        errors["largest batch"] = [one["predicted"] / one["largest"] - 1 for one in found]
        for label, signed in errors.items():
            sizes = sorted(map(abs, signed))
            if sizes:
                shares = [percent(median(sizes)), percent(sizes[-1])]
                rows.append([label, name, len(found), len(sizes), *shares, within(sizes, 0.005)])
    return table(["number", "set", "cases", "compared", "median", "worst", "within 0.5 %"], rows)


def made_with() -> str:
    """When and with which versions the predictions were made."""
    return signature(read(FILE))
