"""Trainings on several GPUs, as predicted; needs no GPU, except to measure ranks.

python benchmarks/several_gpus.py [--only=MPT] [--most=5] [--record]
python benchmarks/several_gpus.py measure [--only=fsdp] --out=FOLDER

Each row of tests/data/published_several.csv is predicted, or has a reason why not (benchmarks/several_gpus_cases.py).
``--record`` writes what was predicted to tests/data/published_several_predicted.json; rows that were left out stay as
they were. ``measure`` runs ranks of groups that send nothing on the GPU here, and writes what they took beside what is
predicted for them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from cases import flags, rounded, save, table, versions
from memorymark.catalog import find_gpu, match_gpu
from memorymark.devices import open_device
from memorymark.keywords import make_request
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.target import Target
from memorymark.results.trial import Trial
from memorymark.units import GIB
from several_gpus_cases import FILE, RANKS, Question, Rank, Row, question_of, rows

RECORD = FILE.with_name("published_several_predicted.json")


def predicted(row: Row, question: Question) -> dict[str, Any]:
    """What is predicted for a published row, and how far it is off."""
    options = {**question.options, **({"config": question.config} if question.config else {})}
    trial = _trial(question.model or row["model"], options, question.gpu, question.batch)
    found: dict[str, Any] = {"fits": trial.fits, "reserved_gib": rounded(trial.peak_reserved_bytes / GIB)}
    if row["memory"] and "reserved" in row["memory_unit"]:
        found["memory_error"] = rounded(trial.peak_reserved_bytes / GIB / float(row["memory"]) - 1)
    speed = row["tokens_per_second_of_each"]
    if question.compares_speed and speed and trial.fits:
        each = (trial.tokens_per_second or 0.0) / trial.gpus
        low, high = (trial.intervals or {})["samples_per_second"]
        per_sample = (trial.tokens_per_sample or 1) / trial.gpus
        found["tokens_per_second_of_each"] = rounded(each)
        found["speed_error"] = rounded(each / float(speed) - 1)
        found["within"] = low * per_sample <= float(speed) <= high * per_sample
    return found


def _trial(model: str, options: dict[str, Any], gpu_id: str, batch: int) -> Trial:
    gpu = find_gpu(gpu_id)
    request = make_request(model, {**options, "gpu": gpu_id, "small": False})
    step = trace_training(workload_of(request), request.recipe, gpu.capability)
    return PredictedProbe(step, request.recipe, gpu).measure(batch)


def published(chosen: dict[str, str]) -> None:
    """Predicts the published rows, or some of them."""
    kept: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))["rows"] if RECORD.exists() else {}
    only, most, done = chosen.get("only", ""), int(chosen.get("most", "1000")), 0
    for place, row in enumerate(rows()):
        question = question_of(row)
        if isinstance(question, str):
            kept[str(place)] = {"why_not": question}
        elif only in f"{row['model']} {row['gpus']} {row['source']}" and done < most:
            kept[str(place)] = predicted(row, question)
            done += 1
            print(place, row["model"], row["gpus"], kept[str(place)], file=sys.stderr, flush=True)
        if "record" in chosen:
            RECORD.write_text(json.dumps({"made_with": versions(), "rows": kept}, indent=1) + "\n", encoding="utf-8")
    body: list[list[object]] = [
        [row["model"], row["gpus"], row["setup"], row["recipe"], row["batch"], *_shown(kept[str(place)])]
        for place, row in enumerate(rows())
        if str(place) in kept
    ]
    save("several_gpus.md", table(["model", "GPUs", "sharing", "recipe", "batch", "memory", "speed"], body))
    for name in ("memory_error", "speed_error"):
        errors = sorted(abs(one[name]) for one in kept.values() if name in one)
        if errors:
            print(f"{name}: {len(errors)} rows, median {median(errors):.1%}, worst {errors[-1]:.1%}", file=sys.stderr)


def _shown(found: dict[str, Any]) -> list[object]:
    if "why_not" in found:
        return [found["why_not"], ""]
    fits = "" if found["fits"] else "does not fit; "
    memory = f"{fits}{found['memory_error']:+.1%}" if "memory_error" in found else fits or "fits"
    return [memory, f"{found['speed_error']:+.1%}" if "speed_error" in found else ""]


def measure(chosen: dict[str, str]) -> None:
    """Measures ranks on the GPU here, and predicts them."""
    device = open_device(Target(device="cuda"))
    gpu = match_gpu(device.name)
    if gpu is None:
        raise SystemExit(f"the {device.name} is not in the catalog")
    found = []
    for rank in (one for one in RANKS if chosen.get("only", "") in one.id):
        measured = _measured(rank)
        trial = _trial(rank.model, rank.options, gpu.id, rank.batch)
        off = trial.peak_allocated_bytes / measured.peak_allocated_bytes - 1
        found.append({"rank": rank.id, "measured": measured.to_dict(), "predicted": trial.to_dict()})
        print(f"{rank.id}: {off:+.2%}", file=sys.stderr, flush=True)
        file = Path(chosen["out"]) / "several_gpus_ranks.json"
        file.write_text(json.dumps({"made_with": versions(), "ranks": found}, indent=1) + "\n", encoding="utf-8")


def _measured(rank: Rank) -> Trial:
    request = make_request(rank.model, {**rank.options, "small": False})
    with MeasuredProbe(workload_of(request), request.recipe, open_device(Target(device="cuda"))) as probe:
        return probe.measure(rank.batch)


if __name__ == "__main__":
    if "measure" in sys.argv:
        measure(flags())
    else:
        published(flags())
