"""Records on a GPU how long single operations take and how much they allocate beyond their results.

python benchmarks/record_kernels.py --out=FOLDER [--seconds=150] [--only=convolution,product]

Each operation of benchmarks/kernel_cases.py runs alone. Its time is the fastest of three rounds of several runs, by
CUDA events. Its scratch space is the peak beyond what lies there before or after it. Kinds take turns, so that a run
that is cut short has some of each.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import torch

from cases import flags, machine
from kernel_cases import CALL, COUNTS, cases

ROUNDS, ROUND_SECONDS, MOST_RUNS = 3, 0.003, 20


def measured(numbers: dict[str, Any]) -> dict[str, Any]:
    """The milliseconds, the bytes beyond the result, and the bytes of the result."""
    torch.backends.cuda.matmul.allow_tf32 = numbers.get("type") == "tf32"
    run = CALL[numbers["kind"]](numbers, "cuda")
    run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = run()
    after = torch.cuda.memory_allocated()
    scratch = torch.cuda.max_memory_allocated() - max(before, after)
    del result
    once = elapsed(run, 1)
    runs = min(max(int(ROUND_SECONDS / (once / 1e3)), 1), MOST_RUNS)
    milliseconds = min(elapsed(run, runs) for _ in range(ROUNDS))
    started = time.perf_counter()
    run()
    host = time.perf_counter() - started
    torch.cuda.synchronize()
    return {
        **numbers,
        "ms": round(milliseconds, 5),
        "host_ms": round(1e3 * host, 4),
        "scratch": scratch,
        "made": after - before,
    }


def elapsed(run: Any, runs: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(runs):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / runs


def main() -> None:
    """Records until all is done or the time is up."""
    wanted = flags().get("only", ",".join(COUNTS)).split(",")
    waiting = {kind: cases(kind, COUNTS[kind]) for kind in wanted}
    deadline, rows, turn = time.monotonic() + float(flags().get("seconds", 150)), [], 0
    failed = 0
    while waiting and time.monotonic() < deadline:
        turn += 1
        for kind in list(waiting):
            for _ in range(max(COUNTS[kind] // 40, 1)):
                numbers = next(waiting[kind], None)
                if numbers is None:
                    del waiting[kind]
                    break
                try:
                    rows.append(measured(numbers))
                except RuntimeError as error:
                    failed += 1
                    rows.append({**numbers, "error": str(error).partition("\n")[0][:80]})
        torch.cuda.empty_cache()
    folder = Path(flags()["out"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "h200_single_kernels.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))
    print(len(rows), "operations,", failed, "failed,", sum(COUNTS.values()), "in all;", machine())


if __name__ == "__main__":
    main()
