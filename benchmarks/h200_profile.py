"""Chooses what `memorymark calibrate` times, and makes the H200's profile from operations recorded on one.

python benchmarks/h200_profile.py [--plan]

With --plan, the cases are chosen anew: of the operations that record_kernels.py recorded, those of shapes that models
use and that a plain roofline says take 15 us to 3 ms on an H200, up to five of each sort, evenly over their sizes. How
long they really took plays no part. Without it, only the profile is made anew, of the cases in the plan: with their
recorded times, which were not taken in the plan's order. The host and its link were not recorded.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from cases import flags
from kernels import GPU, MEASURED, MOST_TENSORS, traced, truth
from memorymark.calibration.plan import PLAN, planned_cases
from memorymark.calibration.timing import runs_of
from memorymark.prediction.calibration.likeness import traits_of
from memorymark.prediction.timing.roofline import launches
from memorymark.profiles.profile import Profile, TimedOperation
from memorymark.profiles.stored import SHIPPED, write
from plain_roofline import plain_seconds

OF_EACH_SORT = 5
SHORTEST, LONGEST = 15e-6, 3e-3
# When tests/data/h200_single_kernels.json.gz was recorded, and with what.
RECORDED = {"date": "2026-11-19", "torch": "2.11.0", "cuda": "13.0", "driver": ""}
WINDOWS, PATCHES = (1, 3, 5, 7), (2, 4, 8, 14, 16)
Numbers = dict[str, Any]


def is_usual(numbers: Numbers) -> bool:
    """Whether models use such shapes."""
    if numbers["kind"] == "convolution":
        is_patch = numbers["window"] in PATCHES and numbers["stride"] == numbers["window"]
        plain = numbers["dilation"] == 1 and not numbers["transposed"] and numbers["groups"] in (1, numbers["shape"][1])
        return plain and (numbers["window"] in WINDOWS or is_patch) and numbers["pass"] in ("forward", "both")
    if numbers["kind"] == "product":
        return numbers["type"] != "fp16" and (numbers["batch"] > 1 or min(numbers[side] for side in "mnk") >= 64)
    return len(numbers.get("sizes", ())) <= MOST_TENSORS


def described(row: Numbers) -> Numbers:
    """What a recorded row timed, without the times."""
    return {name: value for name, value in row.items() if name not in MEASURED}


def chosen() -> list[Numbers]:
    """The cases of the plan; the sorts take turns."""
    sorts: dict[str, list[tuple[float, Numbers]]] = defaultdict(list)
    for row, operations in traced(row for row in truth() if is_usual(row)):
        tf32 = row.get("type") == "tf32"
        run = [(plain_seconds(op, GPU, tf32), op) for op in operations if launches(op)]
        seconds = sum(one for one, _ in run)
        if run and SHORTEST <= seconds <= LONGEST:
            longest, main = max(run, key=lambda one: one[0])
            sorts[traits_of(main, GPU, longest, tf32=tf32).sort].append((seconds, described(row)))
    several = [_evenly(sorted(cases, key=lambda case: case[0])) for cases in sorts.values()]
    found = [cases[turn] for turn in range(OF_EACH_SORT) for cases in several if turn < len(cases)]
    return list({json.dumps(case): case for case in found}.values())  # some were drawn twice


def _evenly(cases: list[tuple[float, Numbers]]) -> list[Numbers]:
    count = min(OF_EACH_SORT, len(cases))
    return [cases[int((place + 0.5) * len(cases) / count)][1] for place in range(count)]


def profile() -> Profile:
    """The profile of the H200, of the cases in the plan."""
    recorded = {json.dumps(described(row), sort_keys=True): row for row in truth()}
    operations = []
    for case in planned_cases():
        row = recorded[json.dumps(case, sort_keys=True)]
        runs = runs_of(case, GPU.capability)
        operations.append(TimedOperation(case, runs, round(row["ms"] / 1e3, 9), round(row["host_ms"] / 1e3, 9)))
    return Profile(gpu_id=GPU.id, gpu_name=GPU.name, origin="replayed", operations=operations, **RECORDED)


def main() -> None:
    if "plan" in flags():
        lines = ",\n".join(json.dumps(case) for case in chosen())
        PLAN.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    made = profile()
    print(write(made, SHIPPED / f"{GPU.id}.json"), len(made.operations), "operations")


if __name__ == "__main__":
    main()
