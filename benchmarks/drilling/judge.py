"""Whether the promises were kept: pure functions from what was seen to figures and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

UNFINISHED = ("queued", "running")
# A worker that something outside kills takes this long to be seen dead.
DYING_SECONDS = 0.25
HEADER = ["drill", "what was done", "count", "lost", "stuck", "duplicated", "5xx", "p50 ms", "p99 ms", "verdict"]


@dataclass(frozen=True)
class Record:
    """A job as the history has it at the end; times are seconds, ``events`` the numbers and kinds of its events."""

    id: str
    name: str
    state: str
    started_at: float | None = None
    finished_at: float | None = None
    error_kind: str | None = None
    events: tuple[tuple[int, str], ...] = ()


@dataclass
class Sent:
    """What callers did and what was done to them: ``acknowledged`` are ids, ``once`` names asked under only once."""

    acknowledged: set[str] = field(default_factory=set)
    once: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    worker_kills: list[float] = field(default_factory=list)
    server_kills: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Losses:
    """What should be empty: ids of jobs, or names of questions."""

    lost: list[str]
    stuck: list[str]
    duplicated: list[str]
    innocent: list[str]

    def promises(self) -> list[Promise]:
        """That each of them is empty."""
        return [
            Promise(f"{name} {len(found)}", not found, ", ".join(found[:3]))
            for name, found in (
                ("lost", self.lost),
                ("stuck", self.stuck),
                ("duplicated", self.duplicated),
                ("failed without a reason", self.innocent),
            )
        ]


@dataclass(frozen=True)
class Promise:
    """One thing that must hold; ``words`` say what was found, as the table has it if it did not, ``detail`` where."""

    words: str
    is_kept: bool
    detail: str = ""


@dataclass
class Outcome:
    """A row of the table and the notes below it."""

    drill: str
    done: str
    count: int = 0
    losses: Losses | None = None
    statuses: Counter[int] = field(default_factory=Counter)
    milliseconds: Sequence[float] = ()
    promises: list[Promise] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def verdict(self) -> str:
        """``kept``, or what was not."""
        broken = [promise.words for promise in self.all_promises() if not promise.is_kept]
        return f"broken: {'; '.join(broken)}" if broken else "kept"

    def all_promises(self) -> list[Promise]:
        """Its own, and those that every drill makes."""
        faults = server_errors(self.statuses)
        shared = [Promise(f"{faults} answers of 5xx", faults == 0)]
        return [*(self.losses.promises() if self.losses else []), *shared, *self.promises]

    def row(self) -> list[object]:
        """The cells of the table."""
        found = self.losses
        counts = [len(found.lost), len(found.stuck), len(found.duplicated)] if found else ["", "", ""]
        times = [f"{percentile(self.milliseconds, at):,.1f}" if self.milliseconds else "" for at in (50, 99)]
        faults = server_errors(self.statuses)
        return [self.drill, self.done, f"{self.count:,}", *counts, faults, *times, self.verdict()]


def server_errors(statuses: Counter[int]) -> int:
    """Answers that say that something broke; 503 and 504 say when to come again, and are counted where they are due."""
    return sum(count for status, count in statuses.items() if status >= 500 and status not in (503, 504))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed."""
    ordered = sorted(values)
    place = -(-len(ordered) * percent // 100)
    return ordered[max(int(place), 1) - 1]


def losses(sent: Sent, records: Iterable[Record]) -> Losses:
    """Compares what was acknowledged with what the history has once everything has settled."""
    rows = list(records)
    ids, names = Counter(record.id for record in rows), Counter(record.name for record in rows)
    ours = [record for record in rows if record.id in sent.acknowledged]
    twice = [job_id for job_id, count in ids.items() if count > 1]
    twice += [name for name in sorted(sent.once) if names[name] > 1]
    twice += [record.id for record in rows if not has_sound_events(record)]
    return Losses(
        lost=sorted(sent.acknowledged - ids.keys()),
        stuck=[record.id for record in rows if record.state in UNFINISHED],
        duplicated=twice,
        innocent=[record.id for record in innocents(sent, ours)],
    )


def has_sound_events(record: Record) -> bool:
    """Whether its events are numbered without a gap and, of those that end a job, there is one at most, the last."""
    numbers = [number for number, _ in record.events]
    kinds = [kind for _, kind in record.events]
    ends = [at for at, kind in enumerate(kinds) if kind in ("result", "error")]
    return numbers == list(range(1, len(numbers) + 1)) and ends in ([], [len(kinds) - 1])


def innocents(sent: Sent, records: Iterable[Record]) -> list[Record]:
    """Jobs without an answer for which nothing that was done to the service is a reason."""
    kills, found = sorted(sent.worker_kills), []
    for record in sorted(records, key=lambda record: record.started_at or 0.0):
        if record.state in (*UNFINISHED, "done"):
            continue
        if record.state == "cancelled" and record.id in sent.cancelled:
            continue
        started, finished = record.started_at, record.finished_at
        if record.state == "interrupted" and started is not None and any(at >= started for at in sent.server_kills):
            continue
        if record.state == "failed" and record.error_kind == "worker" and started is not None and finished is not None:
            reason = next((at for at in kills if started - DYING_SECONDS <= at <= finished), None)
            if reason is not None:
                kills.remove(reason)  # one kill ends one job
                continue
        found.append(record)
    return found


def damaged_streams(heard: Iterable[Sequence[int]]) -> int:
    """How many listeners, over all their connections to one job, missed an event or heard one twice."""
    return sum(list(numbers) != list(range(1, len(numbers) + 1)) for numbers in heard)


def different_answers(answers: Iterable[tuple[str, Any]]) -> list[str]:
    """Names of questions that were answered in more than one way."""
    first: dict[str, Any] = {}
    return sorted({name for name, answer in answers if first.setdefault(name, answer) != answer})
