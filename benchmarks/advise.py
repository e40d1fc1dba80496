"""What `memorymark advise` gains: measured over batch 16 in fp32, and beside the best recipe found by hand.

python benchmarks/advise.py [--model=bert,gpt2] [--compile=without,with] [--out=FOLDER]

Each model is advised about as a user would ask. Then the code of the best option runs as a script in a process of its
own, and so does the recipe by hand: a person's best after a day of trying, with the batch that was best for it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from cases import flags, fresh, keep, machine, table

MODELS = ("bert", "gpt2", "resnet")
BY_HAND = {
    "bert": ({"precision": "bf16", "fused": True, "compile": True}, 512),
    "gpt2": ({"precision": "bf16", "fused": True, "compile": True}, 256),
    "resnet": ({"precision": "bf16", "fused": True, "compile": True, "channels_last": True}, 512),
}
KINDS = {"without": ["--no-try-compile"], "with": []}
WARM_UP_STEPS, STEPS = 10, 30


def advise(model: str, script: Path, *more: str) -> tuple[dict, float]:
    command = [sys.executable, "-m", "memorymark", "advise", model, "--json", "--no-history", "--script", str(script)]
    start = time.perf_counter()
    done = subprocess.run([*command, *more], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - start


def run_script(script: Path) -> float:
    """What the pasted code reaches, in samples a second."""
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=True)
    return float(re.search(r"([\d.]+) samples/s", done.stdout)[1])


def by_hand(model: str) -> dict:
    """The throughput of the recipe by hand."""
    import torch

    import memorymark as mm
    from memorymark.models.workloads import workload_of
    from memorymark.training.step import TrainingStep

    options, batch_size = BY_HAND[model]
    step = TrainingStep(workload_of(mm.Request(model=model)), mm.Recipe(**options), torch.device("cuda"))
    for _ in range(WARM_UP_STEPS):
        step(batch_size)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        step(batch_size)
    torch.cuda.synchronize()
    return {"samples_per_second": STEPS * batch_size / (time.perf_counter() - start)}


def try_out(model: str, compiles: str, more: list[str]) -> tuple[list[object], list[list[object]]]:
    """The row of the best option, and those of all that ran, with their predictions."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "fix.py")
        document, seconds = advise(model, script, *more)
        keep(f"advice_{model}_{compiles}.json", json.dumps(document))
        ran = run_script(script)
    best = document["options"][0]
    hand = fresh(by_hand, model).get("samples_per_second") if compiles == "with" else None
    promised = best["samples_per_second"]
    row = [
        model,
        compiles,
        f"{seconds:.0f} s",
        best["title"],
        f"{best['gain']:.1f}x",
        f"{promised:,.0f}",
        f"{ran:,.0f} ({100 * (ran / promised - 1):+.0f} %)",
        f"{hand:,.0f} ({promised / hand:.2f})" if hand else "",
    ]
    confirmed = [option for option in document["options"] if option["measured"] and option["predicted_gain"]]
    return row, [[model, option["title"], *pair(option)] for option in confirmed]


def pair(option: dict) -> list[str]:
    """A gain as it was measured and as it was predicted."""
    measured, predicted = option["gain"], option["predicted_gain"]
    return [f"{measured:.2f}x", f"{predicted:.2f}x", f"{100 * (predicted / measured - 1):+.0f} %"]


def main() -> None:
    models = flags()["model"].split(",") if "model" in flags() else MODELS
    kinds = [(compiles, KINDS[compiles]) for compiles in flags().get("compile", "without,with").split(",")]
    rows, options = [], []
    for model in models:
        for compiles, more in kinds:
            try:
                row, ran = try_out(model, compiles, more)
            except Exception as error:  # the others still count
                traceback.print_exc()
                row, ran = [model, compiles, "failed", str(error).replace("\n", " ")[:200], "", "", "", ""], []
            rows.append(row)
            options += ran
            print(row, flush=True)
            head = ["model", "compile", "took", "best", "gain", "samples/s", "pasted code", "by hand (ours / it)"]
            keep("advise.md", table(head, rows) + "\n")
            keep("advise_predictions.md", table(["model", "way", "measured", "predicted", "off by"], options) + "\n")
    print(table(head, rows), table(["model", "way", "measured", "predicted", "off by"], options), sep="\n\n")
    print(machine())


if __name__ == "__main__":
    main()
