"""Trainings that no rule of the prediction was made with, as predicted and as a GPU really runs them.

python benchmarks/unseen.py [--only=decoder,nano] [--record]        the table; needs no GPU
python benchmarks/unseen.py memory|time --out=FOLDER [--only=decoder,nano] [--seconds=540]
python benchmarks/unseen.py keep --out=FOLDER

``memory`` and ``time`` need a CUDA GPU: peaks at rising batch sizes and the largest batch under a cap, several cases
side by side; then step times, one case after the other. ``keep`` puts both into tests/data; ``--record`` writes the
errors of predictions there, for docs/accuracy.md. A case that cannot be predicted is listed with the reason.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import memorymark as mm
from cases import flags, machine, rounded, save, table, versions
from memorymark.keywords import make_request
from memorymark.largest_batch import find_maximum
from memorymark.results.trial import Trial
from side_by_side import GPU_GIB, Job, run_all
from unseen_cases import CASES, Case

DATA = Path(__file__).parents[1] / "tests" / "data"
TRUTH, RECORD = DATA / "h200_unseen.jsonl", DATA / "h200_predicted_unseen.json"
HERE = Path(__file__).parent
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TIMED_SIZES = (8, 32, 128)
# Peaks are taken up to this share of the cap, times up to these bytes: beyond them a case only takes longer.
SHARE_OF_CAP = 0.9
MOST_TIMED_BYTES = 12 * 2**30


def request_of(case: Case, **target: Any) -> mm.Request:
    """The case as a request for a device or a GPU."""
    name = case.model
    if case.config is not None:
        folder = Path(tempfile.mkdtemp(prefix="unseen-")) / case.model
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(case.config))
        name = str(folder)
    elif case.file:
        name = f"{HERE / case.file}:{name}"
    return make_request(name, {"memory_gib": case.cap_gib, "small": False, **case.options, **target})


def open_measured(case: Case) -> Any:
    """A probe that runs the case on the GPU here."""
    from memorymark.devices import open_device
    from memorymark.models.workloads import workload_of
    from memorymark.probe.measured import MeasuredProbe

    request = request_of(case, device="cuda")
    device = open_device(request.target)
    return MeasuredProbe(workload_of(request), request.recipe, device, allocator=request.recipe.allocator)


def open_predicted(case: Case) -> Any:
    """A probe that predicts the case."""
    from memorymark.catalog import find_gpu
    from memorymark.models.workloads import workload_of
    from memorymark.prediction.tracing.fake_step import trace_training
    from memorymark.probe.predicted import PredictedProbe

    request, gpu = request_of(case, gpu="h200"), find_gpu("h200")
    step = trace_training(workload_of(request), request.recipe, gpu.capability)
    cap_bytes, kind = request.target.memory_cap_bytes, request.recipe.allocator
    return PredictedProbe(step, request.recipe, gpu, memory_cap_bytes=cap_bytes, allocator=kind)


def memory_of(case: Case) -> dict[str, Any]:
    """Peaks at rising sizes and the largest batch under the cap, on the GPU here."""
    with open_measured(case) as probe:
        return memory_with(probe)


def memory_with(probe: Any) -> dict[str, Any]:
    rows = []
    for size in SIZES:
        trial: Trial = probe.try_from_start(size)
        if not trial.fits:
            break
        peaks = {"allocated": trial.peak_allocated_bytes, "reserved": trial.peak_reserved_bytes}
        rows.append({"batch_size": size, **peaks})
        if trial.peak_allocated_bytes * 2 > SHARE_OF_CAP * probe.info.capacity_bytes:
            break
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe, from_start=probe.try_from_start)
    return {"rows": rows, "maximum": found.maximum}


def times_of(case: Case) -> dict[str, Any]:
    """Step times, alone on the GPU here."""
    with open_measured(case) as probe:
        rows = []
        for size in TIMED_SIZES:
            trial: Trial = probe.measure(size)
            if not trial.fits:
                break
            rows.append({"batch_size": size, "seconds": trial.step_seconds})
            if trial.peak_allocated_bytes * 4 > MOST_TIMED_BYTES:
                break
        return {"times": rows}


def measure(what: str, cases: list[Case], folder: Path) -> None:
    """Runs each case in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    run, alone = {"memory": (memory_of, False), "time": (times_of, True)}[what]
    jobs = [Job(case.name, case, GPU_GIB - 2 if alone else case.cap_gib) for case in cases]
    with (folder / f"{what}.jsonl").open("w") as file:
        for job, result in run_all(run, jobs, seconds=float(flags().get("seconds", 540))):
            file.write(json.dumps({"name": job.name, **result}) + "\n")
            file.flush()


def keep(folder: Path) -> None:
    """Adds what was measured to the truth; what was measured before is replaced."""
    kept = {true["name"]: true for true in truth()}
    for what in ("memory", "time"):
        file = folder / f"{what}.jsonl"
        for line in file.read_text().splitlines() if file.exists() else ():
            if "error" not in (true := json.loads(line)):
                kept[true["name"]] = {**kept.get(true["name"], {}), **true}
    ordered = [kept[case.name] for case in CASES if case.name in kept]
    TRUTH.write_text("".join(json.dumps(true) + "\n" for true in ordered))


def truth() -> list[dict[str, Any]]:
    """What was measured."""
    return [json.loads(line) for line in TRUTH.read_text().splitlines()] if TRUTH.exists() else []


def compare(case: Case, true: dict[str, Any]) -> dict[str, Any]:
    """How far the predictions of a case are off, as shares; or why there are none."""
    facts = {"family": case.family, "name": case.name}
    try:
        probe = open_predicted(case)
    except mm.MemoryMarkError as error:
        return {**facts, "refused": str(error)}
    said = {row["batch_size"]: row for row in memory_with(probe)["rows"]}
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe, from_start=probe.try_from_start)
    errors = {
        name: [
            said[row["batch_size"]][name] / row[name] - 1 for row in true.get("rows", ()) if row["batch_size"] in said
        ]
        for name in ("allocated", "reserved")
    }
    times = [probe.measure(row["batch_size"]).step_seconds / row["seconds"] - 1 for row in true.get("times", ())]
    return {**facts, **errors, "largest": true.get("maximum"), "predicted": found.maximum, "seconds": times}


def report(cases: list[Case]) -> None:
    """Prints how far the predictions of all cases are off."""
    true = {one["name"]: one for one in truth()}
    found = []
    for case in cases:
        found.append(compare(case, true.get(case.name, {})))
        print(case.name, found[-1].get("refused", ""), file=sys.stderr, flush=True)
    header = [
        "family",
        "model and recipe",
        "allocated, worst",
        "reserved, worst",
        "largest batch",
        "predicted",
        "time, worst",
    ]
    save("unseen", table(header, [_row(one) for one in found]))
    summarize(found)
    if "record" in flags():
        listed = [{name: rounded(value) for name, value in one.items()} for one in found]
        command = "python benchmarks/unseen.py --record"
        RECORD.write_text(json.dumps({"made_with": versions(), "command": command, "cases": listed}, indent=1) + "\n")


def _row(one: dict[str, Any]) -> list[object]:
    if "refused" in one:
        return [one["family"], one["name"], one["refused"], "", "", "", ""]
    worst = [_percent(max(one[name], key=abs)) if one[name] else "" for name in ("allocated", "reserved", "seconds")]
    return [one["family"], one["name"], *worst[:2], one["largest"] or "", one["predicted"], worst[2]]


def summarize(found: list[dict[str, Any]]) -> None:
    """Prints the errors of each number in a line."""
    answered = [one for one in found if "refused" not in one]
    print(f"answered: {len(answered)} of {len(found)}")
    for name in ("allocated", "reserved", "seconds"):
        _summarize(name, (error for one in answered for error in one[name]))
    _summarize("largest batch", (one["predicted"] / one["largest"] - 1 for one in answered if one["largest"]))


def _summarize(name: str, errors: Iterable[float]) -> None:
    sizes = sorted(map(abs, errors))
    if len(sizes) > 1:
        shares = (median(sizes), quantiles(sizes, n=20, method="inclusive")[-1], sizes[-1])
        said = (f"{title} {_percent(share)}" for title, share in zip(("median", "95th", "worst"), shares, strict=True))
        print(f"{name}: {', '.join(said)}, {len(sizes)} compared")


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def main() -> None:
    """Does what the first argument says."""
    parts = flags().get("only", "").split(",")
    cases = [case for case in CASES if any(part in f"{case.family} {case.name}" for part in parts)]
    if sys.argv[1:2] in (["memory"], ["time"]):
        measure(sys.argv[1], cases, Path(flags()["out"]))
    elif "keep" in sys.argv:
        keep(Path(flags()["out"]))
        return
    else:
        report(cases)
    print(machine())


if __name__ == "__main__":
    main()
