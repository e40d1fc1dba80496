"""The table of single operations in docs/accuracy.md, from the errors that were recorded."""

from __future__ import annotations

from statistics import median
from typing import Any

from pages.accuracy import signature
from pages.markdown import percent, table
from pages.recorded import read

RECORD = "h200_predicted_kernels.json"
KINDS = {
    "convolution": "convolutions",
    "product": "matrix products",
    "attention": "attention",
    "norm": "norms and softmax",
    "resize": "resizing and pooling",
    "lookup": "embeddings and cross-entropy",
    "pointwise": "elementwise",
    "update": "updates",
}


def by_kind() -> str:
    """How far the times of each kind are off, and how much of its scratch space is right."""
    families = read(RECORD)["families"]
    rows = []
    for kind, label in KINDS.items():
        for which, name in (("fitted", "fitted"), ("held_out", "held out")):
            found = [family.get(which, {}) for title, family in families.items() if title.split()[0] == kind]
            times, scratch = (
                sorted(abs(error) for one in found for error in one.get(key, [])) for key in ("time", "scratch")
            )
            right = sum(error == 0 for error in scratch) / len(scratch)
            middle, high = percent(median(times), 0), percent(times[int(0.95 * (len(times) - 1))], 0)
            rows.append(
                [label if name == "fitted" else "", name, len(times), middle, high, len(scratch), percent(right, 0)]
            )
    header = ["operations", "set", "timed", "time, median", "time, 95th percentile", "traced", "scratch space right"]
    return table(header, rows)


def made_with() -> str:
    """When and with which versions the predictions were made."""
    document: dict[str, Any] = read(RECORD)
    return signature(document)
