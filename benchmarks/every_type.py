"""Predicts a step of a small model of every type that transformers can train, and lists what is refused.

python benchmarks/every_type.py [--only=TASK,TASK] [--types=TYPE,TYPE] [--refused] [--seconds=90] [--record]

Needs no GPU. --refused asks only for what the record lists as refused or does not list. --record writes the outcomes
into tests/data/coverage.json; those of pairs that were not asked for stay.
"""

from __future__ import annotations

import json
import logging
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

import memorymark as mm
from cases import flags, table
from memorymark.catalog.tasks import TASKS, Task
from memorymark.errors import MemoryMarkError
from memorymark.models.heads import forward_arguments, takes_labels
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training

RECORD = Path(__file__).parents[1] / "tests" / "data" / "coverage.json"
HOPPER = (9, 0)
ANSWERED = "answered"
Pair = tuple[str, str]


class TooSlow(BaseException):
    """Not an Exception, so that no library takes it for one of its own."""


def pairs() -> list[Pair]:
    """Every type and task for which transformers has a class that computes a loss, or whose loss is computed here."""
    return [(family, task.id) for task in TASKS.values() if not task.trainer for family in families(task)]


def families(task: Task) -> Iterator[str]:
    """The model types that have a head for the task."""
    auto_class = getattr(transformers, task.auto_class, None)
    for family, names in auto_class._model_mapping._model_mapping.items() if auto_class else ():
        name = names if isinstance(names, str) else names[0]
        if takes_labels(task, forward_arguments(getattr(transformers, name))):
            yield family


def outcome(family: str, task: str) -> str:
    """``answered``, or why the prediction of a stand-in is refused. Any other error is a crash, and raised."""
    request = mm.Request(config={"model_type": family}, small=True, task=task)
    try:
        trace_training(workload_of(request), request.recipe, HOPPER)
    except MemoryMarkError as error:
        return error.said_in("python", with_detail=True)
    return ANSWERED


def read_record() -> dict[str, Any]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"answered": {}, "refused": {}}


def recorded() -> dict[Pair, str]:
    """The outcomes in the record."""
    record = read_record()
    found = {(family, task): ANSWERED for task, families in record["answered"].items() for family in families}
    refused = {(family, task): why for task, whys in record["refused"].items() for family, why in whys.items()}
    return found | refused


def write_record(outcomes: dict[Pair, str]) -> None:
    answered, refused = defaultdict(list), defaultdict(dict)
    for (family, task), what in sorted(outcomes.items()):
        if what == ANSWERED:
            answered[task].append(family)
        else:
            refused[task][family] = what
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.partition("+")[0]}
    RECORD.write_text(json.dumps({**versions, "answered": answered, "refused": refused}, indent=1) + "\n")


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of the processor, which others may use too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def asked_for(options: dict[str, str]) -> list[Pair]:
    """The pairs that the command line names."""
    known = recorded()
    tasks, types = (options[name].split(",") if options.get(name) else None for name in ("only", "types"))
    return [
        (family, task)
        for family, task in pairs()
        if (tasks is None or task in tasks)
        and (types is None or family in types)
        and ("refused" not in options or known.get((family, task)) != ANSWERED)
    ]


def main(options: dict[str, str]) -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    known = {pair: what for pair, what in recorded().items() if pair in set(pairs())}
    for family, task in asked_for(options):
        start = time.monotonic()
        try:
            with at_most(int(options.get("seconds", 90))):
                what = outcome(family, task)
        except TooSlow:
            what = "the trace takes too long"
        except Exception as error:
            what = f"CRASH {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        known[family, task] = what
        print(f"{time.monotonic() - start:5.1f} s  {family}  {task}  {what}", flush=True)
        if "record" in options:
            write_record(known)
    rows = []
    for task in {task: None for _, task in pairs()}:
        outcomes = [known.get(pair, "") for pair in pairs() if pair[1] == task]
        rows.append([task, len(outcomes), outcomes.count(ANSWERED), sum(one.startswith("CRASH") for one in outcomes)])
    rows.append(["all", *(sum(row[column] for row in rows) for column in (1, 2, 3))])
    print(table(["task", "model types", "answered", "crashes"], rows))


if __name__ == "__main__":
    main(flags())
