"""Exact maxima under the cap, and how sharp the edge is: N and N + 1 in five fresh runs.

    python benchmarks/maxima.py [--fresh-runs=5]

A fresh run is a process of its own that warms up at a small batch and then tries one size twice over.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from cases import CAP_GIB, NINE_CASES, fresh, machine, request, save, table

from memorymark.probe.remote import RemoteProbe
from memorymark.search import find_maximum

REFERENCE = {
    ("bert", "fp32"): (265, 266),
    ("gpt2", "fp32"): (144,),
    ("resnet", "fp32"): (261,),
    ("bert", "bf16"): (410,),
    ("gpt2", "bf16"): (189,),
    ("resnet", "bf16"): (507,),
    ("bert", "published"): (288,),
    ("gpt2", "published"): (154,),
    ("resnet", "published"): (263,),
}


def search(model: str, recipe: str) -> dict:
    with RemoteProbe(request(model, recipe)) as probe:
        start = time.perf_counter()
        found = find_maximum(probe.try_batch, probe.info.capacity_bytes, fixed_bytes=probe.info.fixed_bytes)
        seconds = time.perf_counter() - start
    sizes = [(t.batch_size, t.fits) for t in found.trials]
    return {"maximum": found.maximum, "exact": found.exact, "seconds": seconds, "sizes": sizes}


def passes(model: str, recipe: str, size: int) -> bool:
    with RemoteProbe(request(model, recipe)) as probe:
        probe.try_batch(4)
        return probe.try_batch(size).fits


def main() -> None:
    fresh_runs = next((int(a.partition("=")[2]) for a in sys.argv if a.startswith("--fresh-runs=")), 5)
    rows = []
    for model, recipe in NINE_CASES:
        found = search(model, recipe)
        n = found["maximum"]
        jobs = [(model, recipe, n + more) for more in (0, 1) for _ in range(fresh_runs)]
        with ThreadPoolExecutor(5) as pool:  # five capped workers fit the GPU side by side
            outcomes = [answer.get("passes") for answer in pool.map(lambda job: fresh(__file__, *job), jobs)]
        edge = [f"{sum(o is True for o in part)} of {fresh_runs}" for part in (outcomes[:fresh_runs], outcomes[fresh_runs:])]
        expected = " or ".join(map(str, REFERENCE[model, recipe]))
        sizes = " ".join(f"{size}{'' if fits else '✗'}" for size, fits in found["sizes"])
        rows.append([model, recipe, expected, n, *edge, len(found["sizes"]), f"{found['seconds']:.1f}", sizes])
        print(rows[-1], flush=True)
    header = ["model", "recipe", "reference", "found N", "N fits", "N+1 fits", "trials", "search s", "sizes tried"]
    save("maxima", f"{machine()}, allocator capped at {CAP_GIB} GiB\n\n{table(header, rows)}")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[3].isdigit():
        print(json.dumps({"passes": passes(sys.argv[1], sys.argv[2], int(sys.argv[3]))}))
    else:
        main()
