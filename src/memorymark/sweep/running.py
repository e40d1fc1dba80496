"""Runs a sweep: only what the history lacks, each case to its end once, whatever is lost on the way."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memorymark.errors import MemoryMarkError, WorkerLostError
from memorymark.history import Job, JobEvent, Store, new_job
from memorymark.history.failures import error_of, kept
from memorymark.results.analysis import Analysis
from memorymark.results.grid import Grid, GridCase, answer_of, seconds_left
from memorymark.sweep.cases import Case
from memorymark.sweep.engines import Engine
from memorymark.sweep.kept import KeptSweep, asked
from memorymark.sweep.work import MOST_TOGETHER, Lost, Outcome, together

# How often a case is begun before it counts as what kills its worker.
MOST_ATTEMPTS = 3
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a sweep is; ``latest`` is the case that has just ended."""

    total: int
    done: int
    reused: int
    failed: int
    retried: int
    seconds: float
    latest: GridCase | None = None

    @property
    def seconds_left(self) -> float | None:
        """What the rest will take at the pace so far; ``None`` before there is one."""
        return seconds_left(total=self.total, done=self.done, reused=self.reused, seconds=self.seconds)


OnProgress = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """Does nothing."""


class Sweeping:
    """One run of a sweep. What it has answered stays in the history, however it ends."""

    def __init__(
        self,
        cases: Sequence[Case],
        engine: Engine,
        store: Store,
        *,
        source: str = "",
        fresh: bool = False,
        on_progress: OnProgress = no_progress,
        together_at_most: int = MOST_TOGETHER,
    ) -> None:
        self._cases = {case.number: case for case in cases}
        self._engine, self._store, self._fresh = engine, store, fresh
        self._kept = KeptSweep(cases, store, source)
        self._on_progress, self._most = on_progress, together_at_most
        self._found: dict[int, GridCase] = {}
        self._unwritten: dict[int, tuple[Job, list[JobEvent]]] = {}
        self._attempts: Counter[int] = Counter()
        self._retried = 0
        self._start = time.perf_counter()

    def run(self) -> Grid:
        """Answers what is missing; ends all workers, also when it is interrupted."""
        try:
            self._engine.require(list(self._cases.values()))
            missing = [case for case in self._cases.values() if self._fresh or not self._is_known(case)]
            sets = together(missing, self._most)
            self._kept.begin(self._found)
            self._report(None)
            for work in sets:
                self._engine.submit(work)
            while len(self._found) < len(self._cases):
                for happened in self._engine.next(LOOK_SECONDS):
                    self._ended(happened) if isinstance(happened, Outcome) else self._lost(happened)
                self._write()
                self._kept.give_sign()
        finally:
            self._kept.end()
            self._engine.close()
        return self.grid

    @property
    def grid(self) -> Grid:
        """What is known so far."""
        cases = tuple(self._found[number] for number in sorted(self._found))
        return Grid(cases, time.perf_counter() - self._start)

    def _is_known(self, case: Case) -> bool:
        """Looks for a case in the history."""
        job = self._store.concluded(case.key)
        if job is None:
            return False
        try:
            self._found[case.number] = _told(case, job, is_new=False)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # damaged: worked out again
            return False
        return True

    def _ended(self, outcome: Outcome) -> None:
        if self._is_settled(outcome.number):  # two nodes had it, since one seemed to be lost
            return
        case = self._cases[outcome.number]
        error = MemoryMarkError.from_dict(outcome.error) if outcome.error is not None else _elsewhere(case, outcome)
        if isinstance(error, WorkerLostError) and error.field != "time_limit" and self._tries_again(case):
            return
        self._keep(case, outcome, error)

    def _lost(self, lost: Lost) -> None:
        """Gives back to the engine what a lost worker or node had left; only the first case may be to blame."""
        left = [case for case in lost.cases if not self._is_settled(case.number)]
        if not left:
            return
        suspect, *rest = left
        if not self._tries_again(suspect):
            now = time.time()
            error = WorkerLostError(
                f"{lost.why}; this case was begun {MOST_ATTEMPTS} times.",
                hint="give its workers more memory, or look for the reason with `memorymark analyze`",
            )
            self._keep(suspect, Outcome(suspect.number, now, now, {}), error)
        self._submit(rest)

    def _is_settled(self, number: int) -> bool:
        return number in self._found or number in self._unwritten

    def _tries_again(self, case: Case) -> bool:
        self._attempts[case.number] += 1
        if self._attempts[case.number] >= MOST_ATTEMPTS:
            return False
        self._retried += 1
        self._submit([case])
        return True

    def _submit(self, cases: Sequence[Case]) -> None:
        for work in together(cases, self._most):
            self._engine.submit(work)

    def _keep(self, case: Case, outcome: Outcome, error: MemoryMarkError | None) -> None:
        """Notes what came of a case; it counts once it is written."""
        job = _job(case, outcome, error)
        event = "result" if error is None else "error"
        data: dict[str, Any] = {} if error is None else {"state": "failed", **kept(error, "command_line")}
        self._unwritten[case.number] = job, [JobEvent(1, event, data, outcome.finished_at)]

    def _write(self) -> None:
        """Writes all that has come since the last time, at once, before anybody hears of it."""
        new, self._unwritten = self._unwritten, {}
        if not new:
            return
        self._store.add_all(new.values())
        told = [_told(self._cases[number], job, is_new=True) for number, (job, _) in new.items()]
        self._kept.ended(told, is_last=len(self._found) + len(told) == len(self._cases))
        for one in told:
            self._found[one.number] = one
            self._report(one)

    def _report(self, latest: GridCase | None) -> None:
        found = self._found.values()
        self._on_progress(
            Progress(
                total=len(self._cases),
                done=len(found),
                reused=sum(not one.is_new for one in found),
                failed=sum(one.has_failed for one in found),
                retried=self._retried,
                seconds=time.perf_counter() - self._start,
                latest=latest,
            )
        )


def _elsewhere(case: Case, outcome: Outcome) -> MemoryMarkError | None:
    """Returns the error of a case that was measured on another GPU than it asks for, as a node with several may."""
    ran_on = (outcome.result or {}).get("info", {}).get("gpu_id")
    if case.place.gpu in (None, ran_on):
        return None
    return MemoryMarkError(f"this was to run on {case.place.gpu} and ran on {ran_on}; give that node one kind of GPU.")


def _job(case: Case, outcome: Outcome, error: MemoryMarkError | None) -> Job:
    """Returns the job of a case that ended."""
    job = new_job(case.question, "cli")
    return replace(
        job,
        key=case.key,
        machine=outcome.machine or job.machine,
        created_at=outcome.started_at,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
        state="done" if error is None else "failed",
        result=outcome.result if error is None else None,
        **({} if error is None else kept(error, "command_line")),
    )


def _told(case: Case, job: Job, *, is_new: bool) -> GridCase:
    """Returns a case with its answer, or why it has none."""
    about: dict[str, Any] = {"number": case.number, "options": case.options, "job": job.id, "is_new": is_new}
    if job.result is not None:
        return GridCase(**about, **answer_of(Analysis.from_dict(job.result)))
    error = error_of(job)
    return GridCase(
        **about,
        **asked(case),
        error=error.said_in("command_line") if error is not None else "",
        error_code=error.code if error is not None else None,
    )
