"""What calibrating is worth: the H200 as an unknown GPU, calibrated, and what it really did. Needs no GPU.

python benchmarks/other_gpus_calibrated.py [--pairs=bert:fp32,vit:bf16] [--out=FOLDER] [--record]

The truth are the step times of h200_truth.jsonl from batch 16 on. Four predictions are held against it: a plain
roofline, which knows nothing but the datasheet; the same with the H200's profile; MemoryMark's rules, which were
fitted to an H200 and so know it better than any other GPU; and those with the profile. The profile was not timed for
this: it is replayed from operations that were recorded one by one, chosen by shape and datasheet
(benchmarks/h200_profile.py), and has no host costs. Those of the rules are used throughout, and their time of
recurrent layers; they were fitted to this GPU and its host. The correction was developed with these step times in
view; nothing in it was fitted to them. With --record the errors go into tests/data, from which docs/accuracy.md is
made.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from cases import flags, machine, rounded, save, table, versions
from memorymark.catalog import find_gpu
from memorymark.prediction.calibration.correction import Correction
from memorymark.prediction.timing.roofline import RECURRENT
from memorymark.prediction.tracing.operation import Operation
from memorymark.probe.predicted import PredictedProbe
from memorymark.profiles.stored import find_profile
from plain_roofline import plain_seconds
from prediction import TIMED_FROM, probe_for, truth
from zoo import HELD_BACK, recipe

RECORD = Path(__file__).parents[1] / "tests" / "data" / "h200_calibrated.json"
GPU, PROFILE = find_gpu("h200"), find_profile("h200")
NOTHING = replace(PROFILE, operations=[])
# The host's part is taken to matter little where the rules give it less than this share of the true step.
HOST_SHARE = 0.5


class OfRoofline(Correction):
    """Puts the roofline in the place of the rules, before a profile corrects it."""

    def seconds(self, op: Operation, predicted: float, *, tf32: bool) -> float:
        """Returns the corrected time of the roofline, whatever the rules predict."""
        if op.name in RECURRENT:  # no recurrent layer is timed
            return predicted
        return super().seconds(op, plain_seconds(op, self.gpu, tf32), tf32=tf32)


class OfNoTime(Correction):
    """Takes all time from the GPU, so that only the host's is left."""

    def seconds(self, op: Operation, predicted: float, *, tf32: bool) -> float:  # noqa: ARG002
        """Returns as good as nothing."""
        return 1e-12


def corrections() -> dict[str, Correction | None]:
    """The four predictions, each by what it makes of the rules' times."""
    return {
        "roofline": OfRoofline(NOTHING, GPU, rules=plain_seconds),
        "roofline_calibrated": OfRoofline(PROFILE, GPU, rules=plain_seconds),
        "rules": None,
        "rules_calibrated": Correction(PROFILE, GPU),
    }


def errors_of(true: dict[str, Any]) -> dict[str, Any]:
    """The relative errors of each prediction of one pair, and which of its steps the host decides."""
    pair = (true["workload"], true["recipe"])
    step = probe_for(*pair, "h200").step
    rows = [row for row in true["times"] if row["batch_size"] >= TIMED_FROM]
    found: dict[str, Any] = {"workload": pair[0], "recipe": pair[1], "held_back": pair in HELD_BACK}
    for name, correction in corrections().items():
        probe = PredictedProbe(step, recipe(pair[1]), GPU, correction=correction)
        found[name] = [probe.measure(row["batch_size"]).step_seconds / row["seconds"] - 1 for row in rows]
    host = PredictedProbe(step, recipe(pair[1]), GPU, correction=OfNoTime(NOTHING, GPU))
    found["of_gpu"] = [host.measure(row["batch_size"]).step_seconds < HOST_SHARE * row["seconds"] for row in rows]
    return found


def summary(results: list[dict[str, Any]]) -> list[list[object]]:
    """The errors of each prediction over all steps, over those that the GPU decides, and by pair."""
    rows: list[list[object]] = []
    for name in corrections():
        every = [abs(error) for one in results for error in one[name]]
        of_gpu = [abs(e) for one in results for e, counts in zip(one[name], one["of_gpu"], strict=True) if counts]
        by_pair = [median(abs(error) for error in one[name]) for one in results]
        high = sorted(every)[int(0.9 * (len(every) - 1))]
        numbers = (median(every), high, median(of_gpu), median(by_pair))
        rows.append([name, len(every), *(f"{100 * number:.1f} %" for number in numbers)])
    return rows


def main() -> None:
    asked = flags().get("pairs")
    pairs = [tuple(pair.split(":")) for pair in asked.split(",")] if asked else None
    cases = [true for true in truth() if pairs is None or (true["workload"], true["recipe"]) in pairs]
    cases = [true for true in cases if any(row["batch_size"] >= TIMED_FROM for row in true["times"])]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        results = list(pool.map(errors_of, cases))
    header = ["prediction", "steps", "median", "90th percentile", "median of the GPU's steps", "median of pairs"]
    lines = [
        [one["workload"], one["recipe"], *(f"{100 * median(map(abs, one[name])):.1f} %" for name in corrections())]
        for one in results
    ]
    tables = [table(header, summary(results)), table(["workload", "recipe", *corrections()], lines)]
    if "record" in flags() and pairs is None:
        command = "python benchmarks/other_gpus_calibrated.py --record"
        counted = sum(not one.waited_for_host for one in PROFILE.operations)
        facts = {"command": command, "made_with": versions(), "operations": len(PROFILE.operations), "counted": counted}
        kept = [{name: rounded(value) for name, value in one.items()} for one in results]
        RECORD.write_text(json.dumps({**facts, "pairs": kept}) + "\n")
    save("other_gpus_calibrated", "\n\n".join([machine(), *tables]))


if __name__ == "__main__":
    main()
