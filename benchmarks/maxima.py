"""Exact maxima under the cap, and how sharp the edge is: N and N + 1, each in five fresh processes.

python benchmarks/maxima.py [--fresh-runs=5] [--case=bert:fp32] [--out=FOLDER]
"""

from __future__ import annotations

import time

from cases import CAP_GIB, NINE_CASES, flags, fresh, fresh_all, machine, request, save, table

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
    from memorymark.search import find_maximum

    probe = open_probe(model, recipe)
    start = time.perf_counter()
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)
    seconds = time.perf_counter() - start
    tried = " ".join(f"{trial.batch_size}{'' if trial.fits else '✗'}" for trial in found.trials)
    return {"maximum": found.maximum, "seconds": seconds, "trials": len(found.trials), "tried": tried}


def passes(model: str, recipe: str, size: int) -> bool:
    """As the search meets it: a first trial at a small size, then this one."""
    from memorymark.search import FIRST_BATCH

    probe = open_probe(model, recipe)
    probe.try_batch(FIRST_BATCH)
    return probe.try_batch(size).fits


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
        rows.append([model, recipe, expected, found["maximum"], *edge, found["trials"], seconds, found["tried"]])
        print(rows[-1], flush=True)
    header = ["model", "recipe", "reference", "found N", "N fits", "N+1 fits", "trials", "search s", "sizes tried"]
    save("maxima", f"{machine()}, allocator capped at {CAP_GIB} GiB\n\n{table(header, rows)}")


if __name__ == "__main__":
    main()
