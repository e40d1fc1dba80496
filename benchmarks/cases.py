"""The cases the benchmarks share, and how they run one in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import memorymark as mm
from memorymark.units import GIB

RECIPES = {
    "fp32": mm.Recipe(),
    "bf16": mm.Recipe(precision="bf16"),
    "published": mm.Recipe(train_mode=False, loss="mean", optimizer="none"),
}
FIVE_CASES = [("bert", "fp32"), ("gpt2", "fp32"), ("resnet", "fp32"), ("bert", "bf16"), ("resnet", "bf16")]
NINE_CASES = [(model, recipe) for recipe in RECIPES for model in ("bert", "gpt2", "resnet")]
CAP_GIB = 21.7
"""What an A10 lets torch take; the cases run on a larger GPU whose allocator is capped to it."""


def request(model: str, recipe: str, cap_gib: float | None = CAP_GIB) -> mm.Request:
    cap_bytes = None if cap_gib is None else int(cap_gib * GIB)
    return mm.Request(model=model, recipe=RECIPES[recipe], target=mm.Target(device="cuda", memory_cap_bytes=cap_bytes))


def fresh(script: str, *arguments: object) -> dict:
    """Runs a script in a process of its own and reads the JSON it prints last."""
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def machine() -> str:
    """The GPU and versions a table was made with."""
    import torch
    import transformers

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{gpu}, torch {torch.__version__}, transformers {transformers.__version__}, Python {sys.version.split()[0]}"


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def save(name: str, text: str) -> None:
    """Prints a table, and keeps it in the folder given as the last argument, if there is one."""
    print(text, flush=True)
    folder = next((a.removeprefix("--out=") for a in sys.argv if a.startswith("--out=")), None)
    if folder:
        Path(folder, f"{name}.md").write_text(text + "\n")
