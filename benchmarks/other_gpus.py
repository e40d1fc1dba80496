"""How far predicted step times are off on GPUs that we could not use: against what others published. Needs no GPU.

python benchmarks/other_gpus.py [--only=lambda] [--rows] [--record]

The rows are in tests/data/published_steps.csv; benchmarks/other_gpus_cases.py says how each is predicted, and which
GPUs are held out: nothing was fitted on them. Traces are kept in build/other_gpus, so only the first run takes minutes.
``--only`` takes rows with this word in their source, GPU or model, ``--rows`` shows each, and ``--record`` writes
tests/data/published_steps_predicted.json, from which docs/accuracy.md is made.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from cases import flags, rounded, save, table, versions
from memorymark.prediction.timing.step_time import StepTime, StepTimes
from memorymark.prediction.tracing.fake_step import TracedStep, trace_training
from memorymark.prediction.tracing.kept_traces import KeptTraces
from memorymark.prediction.tracing.trace_document import from_document, to_document
from memorymark.results.uncertainty import time_factors
from other_gpus_cases import FILE, Question, Row, question_of, rows

ROOT = Path(__file__).parents[1]
RECORD = FILE.with_name("published_steps_predicted.json")
KEPT = KeptTraces(ROOT / "build" / "other_gpus")
STAND_IN = ROOT / "tests" / "support" / "torchvision_stand_in"
_STEPS: dict[str, TracedStep] = {}


@dataclass(frozen=True)
class Compared:
    """A row and its prediction; ``ratio`` is the predicted time over the published one."""

    row: Row
    question: Question
    seconds: float
    interval: tuple[float, float]

    @property
    def ratio(self) -> float:
        return self.seconds / float(self.row["seconds"])

    @property
    def covered(self) -> bool:
        low, high = self.interval
        return low <= float(self.row["seconds"]) <= high


def traced(question: Question) -> TracedStep:
    """The traced step, which rows of one training share."""
    key = sha256(question.traced_as.encode()).hexdigest()
    if key not in _STEPS:
        document = KEPT.find(key)
        if document is None:
            if str(STAND_IN) not in sys.path:
                sys.path.append(str(STAND_IN))
            step = trace_training(question.workload(), question.recipe, question.gpu.capability)
            KEPT.keep(key, to_document(step))
            document = KEPT.find(key) or json.loads(json.dumps(to_document(step)))
        _STEPS[key] = from_document(document)
    return _STEPS[key]


def time_of(question: Question) -> StepTime:
    """The predicted time of a step."""
    return StepTimes(traced(question), question.recipe, question.gpu).at(question.batch)


def compared(row: Row) -> Compared | str:
    """The row with its prediction, or why there is none."""
    question = question_of(row)
    if isinstance(question, str):
        return question
    time = time_of(question)
    low, high = time_factors(question.gpu, timed=True, shares=time.shares(), never_timed=time.never_timed_share)
    return Compared(row, question, time.seconds, (low * time.seconds, high * time.seconds))


def statistics(found: Iterable[Compared]) -> list[object]:
    """How many, the median error and ratio, the shares within 15, 25 and 30 %, the worst, and the coverage."""
    chosen = list(found)
    errors = sorted(abs(one.ratio - 1) for one in chosen)
    within = [f"{100 * sum(error <= most for error in errors) / len(errors):.0f} %" for most in (0.15, 0.25, 0.30)]
    return [
        len(chosen),
        f"{100 * median(errors):.1f} %",
        f"{100 * (median(one.ratio for one in chosen) - 1):+.1f} %",
        *within,
        f"{100 * errors[-1]:.1f} %",
        f"{100 * sum(one.covered for one in chosen) / len(chosen):.0f} %",
    ]


SHOWN = ("source", "gpu", "model", "precision", "batch", "seconds")
HEADER = ["rows", "median error", "signed median", "within 15 %", "25 %", "30 %", "worst", "in the interval"]


def summary(results: list[Compared], key: Any) -> list[list[object]]:
    """A line for each group of rows, those of held-out GPUs apart."""
    names = sorted({key(one) for one in results})
    lines: list[list[object]] = []
    for held_out in (False, True):
        for name in names:
            chosen = [one for one in results if key(one) == name and one.question.held_out is held_out]
            if chosen:
                lines.append([name, "held out" if held_out else "fitted", *statistics(chosen)])
    return lines


def document(results: list[Compared], reasons: Counter[str]) -> dict[str, Any]:
    """What is recorded: each row's prediction, and why others have none."""
    found = [
        {
            "source": one.row["source"],
            "number": int(one.row["number"]),
            "gpu": one.question.gpu.id,
            "family": one.question.family,
            "held_out": one.question.held_out,
            "seconds": rounded(one.seconds),
            "interval": rounded(list(one.interval)),
        }
        for one in results
    ]
    command = "python benchmarks/other_gpus.py --record"
    return {"command": command, "made_with": versions(), "reasons": dict(reasons), "rows": found}


def main() -> None:
    only = flags().get("only", "")
    asked = [row for row in rows() if only in f"{row['source']} {row['gpu']} {row['model']}"]
    results, reasons = [], Counter[str]()
    for row in asked:
        found = compared(row)
        if isinstance(found, str):
            reasons[found] += 1
        else:
            results.append(found)
    keys = {
        "source": lambda one: one.row["source"],
        "family": lambda one: f"{one.row['source']}, {one.question.family}",
        "GPU": lambda one: one.question.gpu.id,
        "model": lambda one: f"{one.row['source']}, {one.row['model']}, {one.row['precision']}",
    }
    tables = [table([name, "GPUs", *HEADER], summary(results, key)) for name, key in keys.items()]
    if "rows" in flags():
        lines = [
            [*(one.row[name] for name in SHOWN), f"{one.seconds:.4f}", f"{100 * (one.ratio - 1):+.1f} %"]
            for one in results
        ]
        tables.append(table([*SHOWN, "predicted", "off by"], lines))
    if "record" in flags() and not only:
        RECORD.write_text(json.dumps(document(results, reasons)) + "\n")
    left_out = "\n".join(f"{count} rows: {reason}" for reason, count in reasons.items())
    save("other_gpus", "\n\n".join([*tables, left_out]))


if __name__ == "__main__":
    main()
