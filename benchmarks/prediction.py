"""How far predictions are off: every workload of the zoo against what an NVIDIA H200 really did. Needs no GPU.

python benchmarks/prediction.py [--pairs=bert:fp32,vit:bf16] [--out=FOLDER] [--record]

The truth is in tests/data (recorded by record_truth.py): peaks at batch 1 to as many as fit, the largest batch under
several caps, step times. What was held back while the prediction was made is reported apart, and so are sizes timed in
one sitting only: where the GPU waits for the host, one can differ from the next by far. Then the published table.
With --record the errors of all pairs go into tests/data, from which docs/accuracy.md is made.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import memorymark as mm
from cases import find_from_start, flags, machine, rounded, save, table, versions
from memorymark.engine.throughput import measure_curve
from memorymark.largest_batch import find_maximum, size_within
from memorymark.question.question import DEFAULT_MARGIN
from memorymark.results.recommendation import recommend
from memorymark.units import GIB
from zoo import HELD_BACK, WORKLOADS, recipe

DATA = Path(__file__).parents[1] / "tests" / "data"
TRUTH = DATA / "h200_truth.jsonl"
STARTS = DATA / "h200_starts.json"
RECORD = DATA / "h200_predicted.json"
RECORDED_UNDER_GIB = 39.0
"""The cap under which peaks were recorded: cuDNN does without scratch space for which that leaves no room."""
TIMED_FROM = 16
PUBLISHED = [("a10", "bert", 288), ("a10", "gpt2", 152), ("a10", "resnet", 264), ("a100-40gb", "bert", 528)]
PUBLISHED_MIB = ("a10", "bert", 16, 1.62 * 1024)


def truth() -> list[dict[str, Any]]:
    """The recorded pairs; a step time is the geometric mean of those of all sittings."""
    pairs = lines_of(TRUTH)
    for row in (row for pair in pairs for row in pair["times"]):
        row["seconds"] = geometric_mean(row["recorded_seconds"])
    return pairs


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The JSON document of each line; none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def probe_for(workload: str, recipe_name: str, gpu: str, step: Any = None, cap_gib: float | None = None) -> Any:
    from memorymark.catalog import find_gpu
    from memorymark.prediction.tracing.fake_step import trace_training
    from memorymark.probe.predicted import PredictedProbe

    entry, asked = find_gpu(gpu), recipe(recipe_name)
    step = step or trace_training(WORKLOADS[workload](), asked, entry.capability)
    cap_bytes = None if cap_gib is None else int(cap_gib * GIB)
    return PredictedProbe(step, asked, entry, memory_cap_bytes=cap_bytes)


def errors_of(true: dict[str, Any]) -> dict[str, Any]:
    """The relative errors of one workload under one recipe."""
    start = time.perf_counter()
    probe = probe_for(true["workload"], true["recipe"], "h200")
    traced = time.perf_counter()
    capped = probe_for(true["workload"], true["recipe"], "h200", probe.step, RECORDED_UNDER_GIB)
    allocated, reserved = [], []
    for row in true["rows"]:
        trial = capped.try_batch(row["batch_size"])
        allocated.append(trial.peak_allocated_bytes / row["allocated"] - 1)
        reserved.append(trial.peak_reserved_bytes / row["reserved"] - 1)
    tried = time.perf_counter()
    maxima, unsafe = [], 0
    for cap, largest in true["maxima"].items():
        if largest:
            found, recommended = analysed(probe, true, float(cap))
            maxima.append(found / largest - 1)
            unsafe += recommended > largest
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for row in true["times"]:
        if row["batch_size"] >= TIMED_FROM:
            error = probe.measure(row["batch_size"]).step_seconds / row["seconds"] - 1
            seconds[len(row["recorded_seconds"]) > 1].append(error)
    return {
        "workload": true["workload"],
        "recipe": true["recipe"],
        "allocated": allocated,
        "reserved": reserved,
        "maxima": maxima,
        "starts": errors_of_starts(probe, true),
        "unsafe": unsafe,
        "seconds": seconds[True],
        "seconds_once": seconds[False],
        "speedups": errors_of_speedups(probe, true),
        "share": share_of_best(probe, true),
        "trace_seconds": traced - start,
        "trial_seconds": (tried - traced) / max(len(true["rows"]), 1),
    }


def errors_of_speedups(probe: Any, true: dict[str, Any]) -> list[float]:
    """The true ratio of the speeds at two batches over the predicted one, less 1, where both were timed twice."""
    speeds = [
        (probe.measure(row["batch_size"]).samples_per_second, row["batch_size"] / row["seconds"])
        for row in true["times"]
        if len(row["recorded_seconds"]) > 1
    ]
    return [(then[1] / now[1]) / (then[0] / now[0]) - 1 for now, then in combinations(speeds, 2) if now[0] and then[0]]


def errors_of_starts(probe: Any, true: dict[str, Any]) -> list[float]:
    """The relative errors of the largest batch that a training can start with, under each recorded cap."""
    pair = (true["workload"], true["recipe"])
    errors = []
    for start in json.loads(STARTS.read_text()):
        if (start["workload"], start["recipe"]) == pair:
            found, _ = find_from_start(probe_for(*pair, "h200", probe.step, start["cap_gib"]))
            errors.append(found.maximum / start["from_start"] - 1)
    return errors


def analysed(probe: Any, true: dict[str, Any], cap_gib: float) -> tuple[int, int]:
    """The predicted maximum under a cap, and the batch recommended there."""
    capped = probe_for(true["workload"], true["recipe"], "h200", probe.step, cap_gib)
    capacity = capped.info.capacity_bytes
    found = find_maximum(capped.try_batch, capacity, guide=capped)
    safe_bytes = (1 - DEFAULT_MARGIN) * capacity
    curve = measure_curve(capped.measure, found.maximum, TIMED_FROM, size_within(found.trials, safe_bytes))
    best = recommend(curve, safe_bytes)
    return found.maximum, best.batch_size if best else 0


def share_of_best(probe: Any, true: dict[str, Any]) -> float | None:
    """The true throughput at the batch that would be recommended among those timed, as a part of the best."""
    speeds = {row["batch_size"]: row["batch_size"] / row["seconds"] for row in true["times"]}
    if len(speeds) < 2:
        return None
    best = recommend([probe.measure(size) for size in speeds], float("inf"))
    return speeds[best.batch_size] / max(speeds.values()) if best else None


def summary(name: str, results: list[dict[str, Any]]) -> list[list[object]]:
    rows = []
    for quantity in LABELS:
        errors = sorted(abs(error) for result in results for error in result[quantity])
        if errors:
            at = [median(errors), errors[int(0.95 * (len(errors) - 1))], errors[-1]]
            rows.append([name, LABELS[quantity], len(errors), *(f"{100 * error:.2f} %" for error in at)])
    return rows


LABELS = {
    "allocated": "peak allocated",
    "reserved": "peak reserved",
    "maxima": "largest batch",
    "starts": "largest batch that a training starts with",
    "seconds": f"step time, batch {TIMED_FROM} and up",
    "seconds_once": "step time, timed in one sitting only",
    "speedups": "speedup from one batch to another",
}


def row_of(result: dict[str, Any]) -> list[object]:
    def worst(quantity: str) -> str:
        errors = result[quantity]
        return f"{100 * max(errors, key=abs):+.2f} %" if errors else ""

    share = f"{100 * result['share']:.0f} %" if result["share"] else ""
    middle = f"{100 * median(map(abs, result['allocated'])):.2f} %" if result["allocated"] else ""
    pair = [result["workload"], result["recipe"]]
    return [*pair, middle, worst("allocated"), worst("maxima"), worst("seconds"), share]


def published() -> list[list[object]]:
    rows: list[list[object]] = []
    for gpu, model, largest in PUBLISHED:
        found = probe_for(model, "published", gpu).forecast()
        rows.append([gpu, model, "largest batch", largest, found, f"{100 * (found / largest - 1):+.1f} %"])
    gpu, model, size, true_mib = PUBLISHED_MIB
    mib = probe_for(model, "published", gpu).try_batch(size).peak_allocated_bytes / 2**20
    rows.append(
        [gpu, model, f"MiB at batch {size}", f"{true_mib:.0f}", f"{mib:.0f}", f"{100 * (mib / true_mib - 1):+.1f} %"]
    )
    return rows


def record(results: list[dict[str, Any]], rows: list[list[object]]) -> None:
    """Writes the errors of all pairs and the published table down."""
    pairs = [
        {name: rounded(value) for name, value in result.items() if not name.endswith("_seconds")}
        | {"held_back": (result["workload"], result["recipe"]) in HELD_BACK}
        for result in results
    ]
    document = {"command": "python benchmarks/prediction.py --record", "made_with": versions(), "pairs": pairs}
    RECORD.write_text(json.dumps(document | {"published": rows}) + "\n")


def main() -> None:
    asked = flags().get("pairs")
    pairs = [tuple(pair.split(":")) for pair in asked.split(",")] if asked else None
    cases = [true for true in truth() if pairs is None or (true["workload"], true["recipe"]) in pairs]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        results = list(pool.map(errors_of, cases))
    held = [result for result in results if (result["workload"], result["recipe"]) in HELD_BACK]
    known = [result for result in results if result not in held]
    header = ["workload", "recipe", "allocated, median", "allocated, worst", "largest batch, worst", "time, worst"]
    tables = [
        table(
            ["set", "number", "compared", "median", "95th percentile", "worst"],
            [*summary("known", known), *summary("held back", held)],
        ),
        table([*header, "recommended, of best"], [row_of(result) for result in [*known, *held]]),
    ]
    if pairs is None:
        rows = published()
        tables.append(table(["GPU", "model", "", "published", "predicted", "off by"], rows))
        if "record" in flags():
            record(results, rows)
    trace, trial = (median(result[key] for result in results) for key in ("trace_seconds", "trial_seconds"))
    unsafe = sum(result["unsafe"] for result in results)
    facts = (
        f"Tracing takes {trace:.1f} s, a trial {trial:.2f} s (medians). Recommended above the true maximum: {unsafe}."
    )
    save("prediction", "\n\n".join([f"{machine()}, memorymark {mm.__version__}", *tables, facts]))


if __name__ == "__main__":
    main()
