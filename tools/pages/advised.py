"""The tables of what ``memorymark advise`` says of fine-tuning an 8B model, and which of its rows a GPU confirms."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from memorymark.catalog import find_gpu
from memorymark.question.recipe import Recipe
from memorymark.units import gib
from pages.accuracy import signature
from pages.markdown import table
from pages.recorded import DATA, read

FILE, TRUTH, MODEL = "advise_llm.json", "h200_llm.jsonl", "llama-3.1-8b"


def ways() -> str:
    """One line for each GPU and way to fine-tune."""
    rows = []
    for row in _rows():
        start = [_gpu(row), row["title"]]
        if "recipe" not in row:
            rows.append([*start, row["why_not"].removesuffix("."), "", "", "", "", ""])
            continue
        steps = f" x {row['accumulation_steps']}" if row["accumulation_steps"] > 1 else ""
        cells = [
            row["change"],
            f"{row['batch_size']}{steps}",
            row["max_batch_size"],
            f"{row['longest_seq_len']:,}" if row["longest_seq_len"] else "",
            f"{row['tokens_per_second']:,}",
            f"{row['memory_gib']:.1f} GiB",
        ]
        rows.append([*start, *cells])
    header = ["GPU", "way", "least change", "batch", "largest batch", "longest sequence", "tokens/s", "memory"]
    return table(header, rows)


def confirmed() -> str:
    """What an H200 measured of each row: the same recipe and length, or the same recipe at another length."""
    rows = []
    for row in (one for one in _rows() if "recipe" in one):
        recipe = replace(Recipe(**row["recipe"]), accumulation_steps=1)
        cases = [case for case in _measured() if _recipe(case) == recipe]
        cases.sort(key=lambda case: abs(case["seq_len"] - row["seq_len"]))
        told = [f"{case['maximum']} with {case['seq_len']:,} tokens under {case['cap_gib']} GiB" for case in cases]
        usable = f"{gib(find_gpu(row['gpu']).usable_bytes):.2f} GiB"
        predicted = f"{row['max_batch_size']} with {row['seq_len']:,} tokens in {usable}"
        rows.append([_gpu(row), row["title"], predicted, "; ".join(told) or "not measured"])
    return table(["GPU", "way", "largest batch, predicted", "measured on an H200, same recipe"], rows)


def made_with() -> str:
    """When and with which versions the predictions were made."""
    return signature(read(FILE))


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(FILE)["rows"]
    return rows


def _gpu(row: dict[str, Any]) -> str:
    gpu = find_gpu(row["gpu"])
    return f"{gpu.name.removeprefix('NVIDIA ').removeprefix('GeForce ')} ({gib(gpu.torch_memory_bytes):.1f} GiB)"


def _measured() -> list[dict[str, Any]]:
    lines = (DATA / TRUTH).read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["model"] == MODEL]


def _recipe(case: dict[str, Any]) -> Recipe:
    return Recipe(**case["options"])
