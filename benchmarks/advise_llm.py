"""What `memorymark advise` says of fine-tuning Llama 3.1 8B, and whether three of its rows hold on a GPU.

python benchmarks/advise_llm.py predict                     the table, into tests/data; needs no GPU
python benchmarks/advise_llm.py measure --out=FOLDER [--only=h100:full,l40s:lora]
python benchmarks/advise_llm.py keep --out=FOLDER

``measure`` needs a CUDA GPU of 141 GB, peft and bitsandbytes. It caps torch to what the GPU of a row gives it, searches
the largest batch, and trains the longest sequence at batch 1. ``keep`` puts what it found into tests/data.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import memorymark as mm
from cases import flags, fresh, machine, table, versions
from memorymark.catalog import find_gpu
from memorymark.units import GIB

DATA = Path(__file__).parents[1] / "tests" / "data"
ADVICE, TRUTH = DATA / "advise_llm.json", DATA / "h200_advise_llm.json"
MODEL, TODAY = "llama-3.1-8b", {"precision": "bf16"}
GPUS = ("rtx4090", "l40s", "h100")
CONFIRMED = ("rtx4090:qlora", "l40s:lora", "h100:full")


def predict() -> None:
    """Asks for advice for each GPU, and keeps the table."""
    rows = []
    for gpu in GPUS:
        start = time.perf_counter()
        advice = mm.advise(MODEL, gpu=gpu, **TODAY)
        print(f"{gpu}: {time.perf_counter() - start:.0f} s", flush=True)
        rows += [row_of(gpu, advice, family) for family in advice.families]
    made = {"command": "python benchmarks/advise_llm.py predict", "made_with": versions()}
    ADVICE.write_text(json.dumps({**made, "rows": rows}, indent=1) + "\n")
    show(rows)


def row_of(gpu: str, advice: Any, family: Any) -> dict[str, Any]:
    option, tokens = family.option, advice.info.sample_sizes["tokens"]
    row = {"gpu": gpu, "family": family.id, "title": family.title, "tokens": tokens, "why_not": family.why_not}
    if option is None:
        return row
    return {
        **row,
        "change": option.recipe_title,
        "recipe": option.recipe.to_dict(),
        "seq_len": option.seq_len or tokens,
        "max_batch_size": option.max_batch_size,
        "longest_seq_len": family.longest_seq_len,
        "batch_size": option.batch_size,
        "accumulation_steps": option.accumulation_steps,
        "tokens_per_second": round(option.trial.tokens_per_second),
        "memory_gib": round(advice.info.held_bytes(option.trial) / GIB, 2),
        "host_gib": round(option.trial.peak_host_bytes / GIB, 2),
        "slower": {change: round(part, 3) for change, part in option.slower.items()},
    }


def measure(folder: Path) -> None:
    """Runs rows one after the other, each in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = flags()["only"].split(",") if "only" in flags() else CONFIRMED
    found = []
    for row in json.loads(ADVICE.read_text())["rows"]:
        name = f"{row['gpu']}:{row['family']}"
        if name in wanted and "recipe" in row:
            start = time.perf_counter()
            result = fresh(measured, row)
            print(name, f"{time.perf_counter() - start:.0f} s", result, flush=True)
            found.append({"row": name, **result})
            text = json.dumps({"made_with": versions(), "rows": found}, indent=1) + "\n"
            (folder / TRUTH.name).write_text(text)
    print(machine())


def measured(row: dict[str, Any]) -> dict[str, Any]:
    """The largest batch of a row and the peak of its longest sequence, under the cap of its GPU."""
    from dataclasses import replace

    from memorymark.devices import open_device
    from memorymark.largest_batch import find_maximum
    from memorymark.models.workloads import workload_of
    from memorymark.probe.measured import MeasuredProbe

    gpu, recipe = find_gpu(row["gpu"]), mm.Recipe(**row["recipe"])
    target = mm.Target(device="cuda", memory_cap_bytes=gpu.usable_bytes)
    request = mm.Request(model=MODEL, recipe=recipe, target=target, small=False, seq_len=row["seq_len"])
    device, longest = open_device(request.target), row["longest_seq_len"]
    with MeasuredProbe(workload_of(request), request.recipe, device, allocator=request.recipe.allocator) as probe:
        found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe, from_start=probe.try_from_start)
        probe.feed(workload_of(replace(request, seq_len=longest)))
        trial = probe.try_from_start(1)
        return {
            "max_batch_size": found.maximum,
            "longest_seq_len": longest,
            "longest_fits": trial.fits,
            "longest_reserved_bytes": trial.peak_reserved_bytes,
            "capacity_bytes": probe.info.capacity_bytes,
        }


def keep(folder: Path) -> None:
    """Puts what was measured into tests/data."""
    TRUTH.write_text((folder / TRUTH.name).read_text())


def show(rows: list[dict[str, Any]]) -> None:
    header = ["GPU", "", "least change", "largest batch", "longest", "tokens/s"]
    names = ("change", "max_batch_size", "longest_seq_len", "tokens_per_second")
    print(
        table(header, [[row["gpu"], row["title"], *(row.get(name, row["why_not"]) for name in names)] for row in rows])
    )


def main() -> None:
    folder = Path(flags().get("out", "build/advise_llm"))
    jobs = {"predict": predict, "measure": lambda: measure(folder), "keep": lambda: keep(folder)}
    jobs[sys.argv[1]]()


if __name__ == "__main__":
    main()
