"""The same plain loop with and without keeping the model's outputs: five language models, predicted and measured.

python benchmarks/keep_outputs.py                                    the table; needs no GPU
python benchmarks/keep_outputs.py measure --out=FOLDER               needs a CUDA GPU
python benchmarks/keep_outputs.py keep --out=FOLDER                  puts what was measured into tests/data

``outputs = model(**batch); outputs.loss.backward()`` keeps the logits alive through the backward pass; a loop that
keeps only the loss does not. Each case has a process of its own and a cap of 22 GiB, side by side with others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cases import flags, machine, save, table
from llm import DATA, case_of, measure, predicted
from llm_cases import Case

TRUTH = DATA / "h200_keep_outputs.jsonl"
MODELS = [("gpt2-lm", 1024), ("opt-125m", 512), ("qwen2.5-0.5b", 512), ("smollm2-360m", 1024), ("bart-base", 256)]
LOOPS = {"only the loss": {}, "outputs kept": {"keep_outputs": True}}
CASES = [
    Case(loop, model, length, {"precision": "bf16", **options}, 22, (4, 8))
    for model, length in MODELS
    for loop, options in LOOPS.items()
]


def keep(folder: Path) -> None:
    """Puts what was measured into tests/data."""
    rows = [json.loads(line) for line in (folder / "llm.jsonl").read_text().splitlines()]
    order = {case.key: place for place, case in enumerate(CASES)}
    TRUTH.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: order[case_of(row).key])))


def report() -> None:
    """Prints the largest batches of both loops, and how far the predicted peaks are off."""
    true = {case_of(row).key: row for row in map(json.loads, TRUTH.read_text().splitlines())}
    rows: list[list[object]] = []
    for case in CASES:
        row = true[case.key]
        mine = predicted(case, [one["batch_size"] for one in row["rows"]])
        off = max((said["allocated"] / was["allocated"] - 1 for said, was in _pairs(mine, row)), key=abs)
        peaks = f"{row['rows'][0]['allocated'] / 2**30:.2f} GiB"
        rows.append(
            [case.model, case.seq_len, case.name, row["maximum"], mine["maximum"], peaks, f"{100 * off:+.3f} %"]
        )
    header = ["model", "tokens", "the loop keeps", "largest batch", "predicted", "peak at batch 4", "predicted, worst"]
    save("keep_outputs", table(header, rows))


def _pairs(mine: dict[str, Any], true: dict[str, Any]) -> Any:
    return zip(mine["rows"], true["rows"], strict=True)


def main() -> None:
    """Does what the first argument says."""
    if "measure" in sys.argv:
        measure(CASES, Path(flags()["out"]))
    elif "keep" in sys.argv:
        keep(Path(flags()["out"]))
        return
    else:
        report()
    print(machine())


if __name__ == "__main__":
    main()
