"""Reads and writes sweeps: what they ask for, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from memorymark.errors import UsageError
from memorymark.history.database import Database
from memorymark.history.listed_sweep import ListedSweep, SweepAxis, SweepCase
from memorymark.history.tables import storable, storable_text, sweep_cases, sweeps
from memorymark.results.grid import GridCase


class Sweeps:
    """The sweeps of a history; each call is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, sweep_id: str, source: str, axes: Sequence[SweepAxis], cases: Sequence[SweepCase]) -> None:
        """Notes that a sweep starts with these cases; one that ran before starts anew, with what is known of it."""
        now = time.time()
        columns = {
            "source": storable_text(source),
            "axes": storable([axis.to_dict() for axis in axes]),
            "total": len(cases),
            "started_at": now,
            "alive_at": now,
            "stopped_at": None,
            "finished_at": None,
            **_counts([one.case for one in cases if one.is_answered]),
        }
        # Made before others have to wait for the writing.
        rows = [
            {
                "sweep_id": sweep_id,
                "number": one.case.number,
                "answered": one.is_answered,
                "document": storable(one.case.to_dict()),
            }
            for one in cases
        ]
        with self._database.writing() as connection:
            before = connection.scalar(select(sweeps.c.change).where(sweeps.c.id == sweep_id).with_for_update())
            first = (before or 0) + 1
            columns["change"] = first + len(cases) - 1
            if before is None:
                connection.execute(insert(sweeps).values(id=sweep_id, **columns))
            else:
                connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(**columns))
                connection.execute(delete(sweep_cases).where(sweep_cases.c.sweep_id == sweep_id))
            changed = [{**row, "change": change} for change, row in enumerate(rows, first)]
            if changed:
                connection.execute(insert(sweep_cases), changed)

    def ended(self, sweep_id: str, new: Sequence[GridCase], found: Sequence[GridCase]) -> None:
        """Notes cases that have just ended; ``found`` are all that have."""
        with self._database.writing() as connection:
            before = connection.scalar(select(sweeps.c.change).where(sweeps.c.id == sweep_id).with_for_update())
            if before is None:  # somebody has deleted it
                return
            rows = [
                {"of": one.number, "to": change, "told": storable(one.to_dict())}
                for change, one in enumerate(new, before + 1)
            ]
            which = (sweep_cases.c.sweep_id == sweep_id) & (sweep_cases.c.number == bindparam("of"))
            told = {
                "change": bindparam("to"),
                "answered": True,
                "document": bindparam("told", type_=sweep_cases.c.document.type),
            }
            connection.execute(update(sweep_cases).where(which).values(**told), rows)
            _note(
                connection, sweep_id, change=before + len(new), alive_at=time.time(), stopped_at=None, **_counts(found)
            )

    def give_sign(self, sweep_id: str) -> None:
        """Notes that a sweep still runs."""
        with self._database.writing() as connection:
            _note(connection, sweep_id, alive_at=time.time(), stopped_at=None)

    def end(self, sweep_id: str, *, is_finished: bool) -> None:
        """Notes that a sweep has ended."""
        now = time.time()
        with self._database.writing() as connection:
            _note(connection, sweep_id, alive_at=now, **{"finished_at" if is_finished else "stopped_at": now})

    def latest(self, *, limit: int = 50, before: str | None = None) -> list[ListedSweep]:
        """Lists sweeps, the last to start first; ``before`` is the id of one, and only earlier ones are listed."""
        query = select(sweeps).order_by(sweeps.c.started_at.desc(), sweeps.c.number.desc()).limit(limit)
        with self._database.reading() as connection:
            if before is not None:
                last = connection.execute(select(sweeps).where(sweeps.c.id == before)).first()
                if last is None:
                    raise UsageError(
                        f"the history has no sweep {before!r} to continue from.",
                        code="unknown_sweep",
                        field="before",
                        given=before,
                    )
                is_tied = (sweeps.c.started_at == last.started_at) & (sweeps.c.number < last.number)
                query = query.where((sweeps.c.started_at < last.started_at) | is_tied)
            return [_listed(row) for row in connection.execute(query)]

    def find(self, sweep_id: str) -> ListedSweep | None:
        """Returns the sweep with this id, or ``None``."""
        with self._database.reading() as connection:
            row = connection.execute(select(sweeps).where(sweeps.c.id == sweep_id)).first()
        return None if row is None else _listed(row)

    def cases(self, sweep_id: str, *, after: int = 0, limit: int | None = None) -> list[tuple[int, SweepCase]]:
        """Returns the cases that changed after a change, each with the number of its last one, in that order."""
        of_sweep = (sweep_cases.c.sweep_id == sweep_id) & (sweep_cases.c.change > after)
        query = select(sweep_cases).where(of_sweep).order_by(sweep_cases.c.change).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [(row.change, one) for row in rows if (one := _case(row)) is not None]


def _note(connection: Connection, sweep_id: str, **columns: Any) -> None:
    connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(**columns))


def _counts(found: Sequence[GridCase]) -> dict[str, int]:
    return {
        "done": len(found),
        "failed": sum(one.has_failed for one in found),
        "reused": sum(not one.is_new for one in found),
    }


def _listed(row: Row[Any]) -> ListedSweep:
    columns = dict(row._mapping)
    del columns["number"]
    try:
        axes = tuple(SweepAxis.from_dict(axis) for axis in columns.pop("axes"))
    except (LookupError, TypeError, ValueError):  # damaged, or of another version
        axes = ()
    return ListedSweep(axes=axes, now=time.time(), **columns)


def _case(row: Row[Any]) -> SweepCase | None:
    """Returns a case, or ``None`` if its document is damaged."""
    try:
        return SweepCase(case=GridCase.from_dict(row.document), is_answered=row.answered)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
