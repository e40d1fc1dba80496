"""Records the largest batch of trainings that start with it, and what a search finds after a small first step.

python benchmarks/record_starts.py --out=FOLDER [--pairs=bert:fp32,llama:bf16]

Each pair and cap has a process of its own, three at a time: tests/data/h200_starts.json. benchmarks/maxima.py shows
that what fits so fits in a fresh process, too.
"""

from __future__ import annotations

import json
from typing import Any

from cases import find_from_start, flags, fresh_all, keep, machine, save, table
from record_truth import open_probe

PAIRS = [
    "bert:fp32",
    "bert:bf16-checkpointing",
    "gpt2-lm:bf16",
    "llama:bf16",
    "t5:bf16",
    "resnet:fp32",
    "convnext:bf16",
    "vit:bf16",
    "mlp:fp32",
    "torch-encoder:bf16",
    "lstm:fp32",
    "gru:bf16",
    "swin:fp32",
    "bart:bf16",
]
CAPS_GIB = (14.2, 21.7, 39.0)
AT_ONCE = 3


def find(workload: str, recipe: str, cap_gib: float) -> dict[str, Any]:
    found, searched = find_from_start(open_probe(workload, recipe, cap_gib)[0])
    facts = {"workload": workload, "recipe": recipe, "cap_gib": cap_gib}
    return {**facts, "searched": searched, "from_start": found.maximum}


def main() -> None:
    pairs = flags()["pairs"].split(",") if "pairs" in flags() else PAIRS
    jobs = [(*pair.split(":"), cap_gib) for pair in pairs for cap_gib in CAPS_GIB]
    facts = []
    for start in range(0, len(jobs), AT_ONCE):  # so many caps fit on the GPU side by side
        facts += fresh_all(find, jobs[start : start + AT_ONCE])
        print(*facts[start:], sep="\n", flush=True)
    facts = [found for found in facts if "error" not in found]
    keep("h200_starts.json", "[\n" + ",\n".join(f" {json.dumps(found)}" for found in facts) + "\n]\n")
    header = ["workload", "recipe", "cap GiB", "searched", "from the start"]
    save("starts", f"{machine()}\n\n{table(header, [list(found.values()) for found in facts])}")


if __name__ == "__main__":
    main()
