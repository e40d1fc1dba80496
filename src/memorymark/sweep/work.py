"""Sets of cases that share a trace, and answering one: the same code on this machine and on a node of a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memorymark import answer as engine
from memorymark.devices.machine import describe_machine
from memorymark.errors import MemoryMarkError
from memorymark.question.question import Question
from memorymark.sweep.cases import Case, Place
from memorymark.worker.supervisor import KeptWorkers, Workers

# A larger set would leave cores idle at the end, and lose more with a node.
MOST_TOGETHER = 16


@dataclass(frozen=True)
class Work:
    """Cases to answer one after the other, in one worker."""

    cases: tuple[Case, ...]

    @property
    def place(self) -> Place:
        """What they all need."""
        return self.cases[0].place

    def without(self, numbers: Iterable[int]) -> tuple[Case, ...]:
        """Returns the cases that are left after those with these numbers."""
        done = set(numbers)
        return tuple(case for case in self.cases if case.number not in done)


@dataclass(frozen=True)
class Outcome:
    """What came of one case: the document of its result or of its error, and where and when it was worked out."""

    number: int
    started_at: float
    finished_at: float
    machine: dict[str, Any]
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True)
class Lost:
    """Cases that came back without an outcome, since their worker or node was lost; the first was being worked on."""

    cases: tuple[Case, ...]
    why: str


Happened = Outcome | Lost


def together(cases: Iterable[Case], most: int = MOST_TOGETHER) -> list[Work]:
    """Puts cases that share a trace into sets, the largest first, so that the last ones to end are short."""
    shared: dict[str, list[Case]] = {}
    for case in cases:
        shared.setdefault(case.trace, []).append(case)
    sets = [
        Work(tuple(group[start : start + most])) for group in shared.values() for start in range(0, len(group), most)
    ]
    return sorted(sets, key=lambda work: -len(work.cases))


def outcomes(
    asked: Sequence[tuple[int, Question]], workers: Workers, *, time_limit_seconds: float
) -> Iterator[Outcome]:
    """Answers questions one after the other in one worker, and yields what comes of each."""
    kept = KeptWorkers(workers)
    try:
        for number, question in asked:
            started_at = time.time()
            result, error = _answered(question, kept, time_limit_seconds)
            yield Outcome(number, started_at, time.time(), describe_machine(), result, error)
    finally:
        kept.close()


def _answered(
    question: Question, workers: Workers, time_limit_seconds: float
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    try:
        result = engine.answer(
            question, time_limit_seconds=time_limit_seconds, workers=workers, keep_traces=True, suggests=False
        )
    except MemoryMarkError as error:
        return None, error.to_dict(with_detail=True)
    except Exception as error:  # one case must not stop the rest
        fault = MemoryMarkError("something went wrong inside MemoryMark.", code="internal", detail=repr(error))
        return None, fault.to_dict(with_detail=True)
    return result.to_dict(), None
