"""Records what searches on a GPU forecast and found: the truth that the forecast is held against.

python benchmarks/record_searches.py --out=FOLDER [--pairs=bert:fp32,vit:bf16]

Each search runs in a fresh process under the cap. Of each the two recorded steps are kept, the allocator's layout that
the forecast started from, and the largest batch: tests/data/h200_forecasts.json.gz.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

from cases import CAP_GIB, flags, fresh, machine, save, table
from memorymark.largest_batch import find_maximum
from record_truth import compact, open_probe

PAIRS = [
    ("bert", "bf16"),
    ("bert", "fp32"),
    ("gpt2", "fp32"),
    ("resnet", "bf16"),
    ("resnet", "fp32"),
    ("bart", "bf16"),
    ("bert-512", "bf16"),
    ("bert", "bf16-checkpointing"),
    ("distilbert", "sgd"),
    ("efficientnet", "bf16"),
    ("gpt2", "bf16"),
    ("llama", "bf16"),
    ("t5", "fp32"),
    ("torch-encoder", "bf16"),
    ("unet", "fp32"),
    ("vit", "bf16"),
    ("wav2vec2", "fp32"),
]


def search(workload: str, recipe: str) -> dict[str, Any]:
    probe, _ = open_probe(workload, recipe, CAP_GIB)
    start = time.perf_counter()
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)
    seconds = time.perf_counter() - start
    recordings = [
        {"batch_size": recording.batch_size, "actions": compact(recording.trace)["actions"]}
        for recording in probe._recordings[-2:]
    ]
    facts = {"workload": workload, "recipe": recipe, "recordings": recordings, "maximum": found.maximum}
    segments = [[segment.address, segment.small, segment.blocks] for segment in probe._layout]
    return {
        "facts": {**facts, "segments": segments},
        "row": [workload, recipe, probe.forecast(), found.maximum, len(found.trials), f"{seconds:.2f}"],
    }


def main() -> None:
    pairs = [tuple(pair.split(":")) for pair in flags()["pairs"].split(",")] if "pairs" in flags() else PAIRS
    rows, searches = [], []
    for workload, recipe in pairs:
        answer = fresh(search, workload, recipe)
        rows.append(answer.get("row") or [workload, recipe, f"crashed: {answer['error']}", "", "", ""])
        print(rows[-1], flush=True)
        if "facts" in answer:
            searches.append(answer["facts"])
            folder = Path(flags()["out"])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "h200_forecasts.json.gz").write_bytes(gzip.compress(json.dumps(searches).encode(), mtime=0))
    header = ["workload", "recipe", "forecast", "found", "trials", "search s"]
    save("searches", f"{machine()}, allocator capped at {CAP_GIB} GiB\n\n{table(header, rows)}")


if __name__ == "__main__":
    main()
