"""The cases the benchmarks share, and how they run one in a fresh process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import date
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import memorymark as mm
from memorymark.largest_batch import SearchResult, find_maximum
from memorymark.results.trial import Trial
from memorymark.units import GIB

T = TypeVar("T")
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


def fresh(run: Callable[..., T], *arguments: object) -> T:
    """Runs a function in a process of its own, in which CUDA starts anew but the imports are already done."""
    return fresh_all(run, [arguments])[0]


def fresh_all(run: Callable[..., T], jobs: Sequence[tuple[object, ...]]) -> list[T]:
    """Runs a function once for each job, all at the same time, each in a process of its own."""
    # Asked through the driver's library, torch leaves CUDA alone in this process, and a fork stays usable.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification  # noqa: F401

    context = get_context("fork")
    pipes = []
    for arguments in jobs:
        receiver, sender = context.Pipe(duplex=False)
        context.Process(target=_send_result, args=(sender, run, arguments)).start()
        sender.close()
        pipes.append(receiver)
    return [receiver.recv() for receiver in pipes]


def _send_result(sender: Connection, run: Callable[..., T], arguments: tuple[object, ...]) -> None:
    try:
        sender.send(run(*arguments))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"})


def find_from_start(probe: Any) -> tuple[SearchResult, int]:
    """The search of an analysis, and what it had found before it tried sizes as a training that starts with them."""
    searched = 0

    def try_batch(size: int) -> Trial:
        nonlocal searched
        trial = probe.try_batch(size)
        searched = max(searched, size) if trial.fits else searched
        return trial

    capacity_bytes = probe.info.capacity_bytes
    found = find_maximum(try_batch, capacity_bytes, guide=probe, from_start=probe.try_from_start)
    return found, searched


def flags() -> dict[str, str]:
    """The ``--name=value`` arguments."""
    return dict(argument[2:].partition("=")[::2] for argument in sys.argv[1:] if argument.startswith("--"))


def machine() -> str:
    """The GPU and versions a table was made with; starts CUDA, so call it last."""
    import torch
    import transformers

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{gpu}, torch {torch.__version__}, transformers {transformers.__version__}, Python {sys.version.split()[0]}"


def versions() -> dict[str, str]:
    """What a recorded result was made with, and when."""
    import torch
    import transformers

    return {
        "date": date.today().isoformat(),
        "memorymark": mm.__version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def rounded(value: Any) -> Any:
    """Four digits of a number, or of each in a list: a recorded result changes only where it matters."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def save(name: str, text: str) -> None:
    """Prints a table, and keeps it in the folder given with --out."""
    print(text, flush=True)
    keep(f"{name}.md", text + "\n")


def keep(name: str, text: str) -> None:
    """Writes a file into the folder given with --out, if one is."""
    if "out" in flags():
        folder = Path(flags()["out"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
