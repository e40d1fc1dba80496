"""What `memorymark advise` gains: measured over batch 16 in fp32, and beside the best recipe found by hand.

python benchmarks/advise.py [--model=bert] [--out=FOLDER] [--without-compile]

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
from pathlib import Path

from cases import flags, fresh, machine, save, table
from memorymark.advice import Advice

MODELS = ("bert", "gpt2", "resnet")
BY_HAND = {
    "bert": ({"precision": "bf16", "fused": True, "compile": True}, 512),
    "gpt2": ({"precision": "bf16", "fused": True, "compile": True}, 256),
    "resnet": ({"precision": "bf16", "fused": True, "compile": True, "channels_last": True}, 512),
}
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
    from memorymark.step import TrainingStep

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


def main() -> None:
    models = [flags()["model"]] if "model" in flags() else MODELS
    kinds = [("without", ["--no-try-compile"])]
    kinds += [] if "without-compile" in flags() else [("with", [])]
    rows, options = [], []
    for model in models:
        for compiles, more in kinds:
            with tempfile.TemporaryDirectory() as folder:
                script = Path(folder, "fix.py")
                document, seconds = advise(model, script, *more)
                ran = run_script(script)
            best = document["options"][0]
            hand = fresh(by_hand, model)["samples_per_second"] if compiles == "with" else None
            promised = best["samples_per_second"]
            rows.append(
                [
                    model,
                    compiles,
                    f"{seconds:.0f} s",
                    best["title"],
                    f"{best['gain']:.1f}x",
                    f"{promised:,.0f}",
                    f"{ran:,.0f} ({100 * (ran / promised - 1):+.0f} %)",
                    f"{hand:,.0f} ({promised / hand:.2f})" if hand else "",
                ]
            )
            for option in document["options"]:
                if option["measured"] and option["predicted_gain"]:
                    pair = (f"{option['gain']:.2f}x", f"{option['predicted_gain']:.2f}x")
                    off = f"{100 * (option['predicted_gain'] / option['gain'] - 1):+.0f} %"
                    options.append([model, option["title"], *pair, off])
            if "out" in flags():
                Path(flags()["out"], f"advice_{model}_{compiles}.json").write_text(json.dumps(document))
            assert Advice.from_dict(document).best is not None
            print(rows[-1], flush=True)
    head = ["model", "compile", "took", "best", "gain", "samples/s", "pasted code", "by hand (ours / it)"]
    save("advise", table(head, rows))
    save("advise_predictions", table(["model", "way", "measured", "predicted", "off by"], options))
    print(machine())


if __name__ == "__main__":
    main()
