"""Exact maxima under the cap, and how sharp the edge is: N and N + 1, each from the start in five fresh processes.

The search tries sizes in one process, after a small first step. What it finds is then tried as a training starts, with
no optimizer state yet, and N is the largest for which that works.

python benchmarks/maxima.py [--fresh-runs=5] [--case=bert:fp32] [--out=FOLDER]
"""

from __future__ import annotations

import time

from cases import CAP_GIB, NINE_CASES, find_from_start, flags, fresh, fresh_all, machine, request, save, table

REFERENCE = {
    ("bert", "fp32"): "265 or 266",
    ("gpt2", "fp32"): "144",
    ("resnet", "fp32"): "261",
    ("bert", "bf16"): "410",
    ("gpt2", "bf16"): "189",
    ("resnet", "bf16"): "507",
    ("bert", "published"): "288",
    ("gpt2", "published"): "154",
    ("resnet", "published"): "263",
}


def open_probe(model: str, recipe: str):
    from memorymark.devices import open_device
    from memorymark.models.workloads import workload_of
    from memorymark.probe.measured import MeasuredProbe

    asked = request(model, recipe)
    return MeasuredProbe(workload_of(asked), asked.recipe, open_device(asked.target))


def search(model: str, recipe: str) -> dict:
    probe = open_probe(model, recipe)
    start = time.perf_counter()
    found, searched = find_from_start(probe)
    return {
        "searched": searched,
        "maximum": found.maximum,
        "seconds": time.perf_counter() - start,
        "trials": len(found.trials),
        "tried": " ".join(f"{trial.batch_size}{'' if trial.fits else '✗'}" for trial in found.trials),
    }


def passes(model: str, recipe: str, size: int) -> bool:
    """As a training script meets it."""
    return open_probe(model, recipe).try_from_start(size).fits


def main() -> None:
    runs = int(flags().get("fresh-runs", 5))
    cases = [tuple(flags()["case"].split(":"))] if "case" in flags() else NINE_CASES
    rows = []
    for model, recipe in cases:
        found = fresh(search, model, recipe)
        edge = []
        for size in (found["maximum"], found["maximum"] + 1):
            outcomes = fresh_all(passes, [(model, recipe, size)] * runs)  # five capped processes fit side by side
            edge.append(f"{sum(outcomes)} of {runs}")
        seconds = f"{found['seconds']:.1f}"
        expected = REFERENCE[model, recipe]
        sizes = [expected, found["searched"], found["maximum"]]
        rows.append([model, recipe, *sizes, *edge, found["trials"], seconds, found["tried"]])
        print(rows[-1], flush=True)
    sizes = ["reference", "searched", "from the start: N"]
    header = ["model", "recipe", *sizes, "N fits", "N+1 fits", "trials", "search s", "sizes tried"]
    save("maxima", f"{machine()}, allocator capped at {CAP_GIB} GiB\n\n{table(header, rows)}")


if __name__ == "__main__":
    main()
