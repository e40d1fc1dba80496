"""A whole analysis from the command line: where its time goes, and whether its advice holds.

python benchmarks/analysis.py [--case=bert:fp32] [--out=FOLDER]

Each case runs `memorymark analyze` as a user would. Then a fresh process trains 50 steps at the recommended batch,
from a cold start: it must not run out of memory, its allocator must not retry, and its throughput must be at least
95 % of the best that the analysis measured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from cases import CAP_GIB, FIVE_CASES, flags, fresh, keep, machine, request, save, table

STEPS = 50
STAGES = ["import", "device", "build", "search", "throughput"]


def analyze(model: str, recipe: str) -> dict:
    command = [sys.executable, "-m", "memorymark", "analyze", model, "--precision", recipe, "--json", "--quiet"]
    start = time.perf_counter()
    done = subprocess.run([*command, "--memory-gib", str(CAP_GIB)], capture_output=True, text=True, check=True)
    wall_seconds = time.perf_counter() - start
    worker_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {**json.loads(done.stdout), "wall_seconds": wall_seconds, "host_gib": worker_kib / 2**20}


def train(model: str, recipe: str, batch_size: int) -> dict:
    """50 steps from a cold start, as a training script runs them."""
    import torch

    from memorymark.devices import open_device
    from memorymark.models.workloads import workload_of
    from memorymark.training.step import TrainingStep

    asked = request(model, recipe)
    device = open_device(asked.target)
    step = TrainingStep(workload_of(asked), asked.recipe, device.torch_device)
    seconds = device.time_steps(lambda: step(batch_size), STEPS)
    steady = seconds[STEPS // 5 :]
    retries = torch.cuda.memory_stats()["num_alloc_retries"]
    return {"samples_per_second": batch_size * len(steady) / sum(steady), "retries": retries}


def main() -> None:
    cases = [tuple(flags()["case"].split(":"))] if "case" in flags() else FIVE_CASES
    times, advice = [], []
    for model, recipe in cases:
        result = analyze(model, recipe)
        keep(f"{model}_{recipe}.json", json.dumps(result))
        seconds = [f"{result['seconds'][stage]:.1f}" for stage in STAGES]
        wall = f"{result['wall_seconds']:.1f}"
        times.append([model, recipe, *seconds, wall, len(result["trials"]), f"{result['host_gib']:.1f}"])
        print(times[-1], flush=True)
        best = max(row["samples_per_second"] or 0.0 for row in result["results"])
        recommended = result["recommended_batch_size"]
        trained = fresh(train, model, recipe, recommended)
        reached = trained["samples_per_second"]
        share = f"{100 * reached / best:.1f} %"
        numbers = [result["max_batch_size"], recommended, f"{best:,.0f}", f"{reached:,.0f}", share]
        advice.append([model, recipe, *numbers, trained["retries"], f"{result['speedup']:.2f}x"])
        print(advice[-1], flush=True)
    where = f"{machine()}, allocator capped at {CAP_GIB} GiB"
    time_header = ["model", "recipe", *(f"{stage} s" for stage in STAGES), "wall s", "trials", "host GiB"]
    header = ["model", "recipe", "maximum", "recommended", "best samples/s", f"in {STEPS} steps", "of best", "retries"]
    tables = f"{table(time_header, times)}\n\n{table([*header, 'speedup over 16'], advice)}"
    save("analysis", f"{where}\n\n{tables}")


if __name__ == "__main__":
    main()
