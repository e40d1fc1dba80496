"""Reads and writes sweeps: what they ask for, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Update,
    bindparam,
    delete,
    extract,
    func,
    insert,
    select,
    update,
)

from memorymark.errors import UsageError
from memorymark.history.database import Database
from memorymark.history.listed_sweep import ListedSweep, SweepAxis, SweepCase
from memorymark.history.tables import add, storable, storable_text, sweep_cases, sweeps
from memorymark.results.grid import GridCase


class Sweeps:
    """The sweeps of a history; each call is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, sweep_id: str, source: str, axes: Sequence[SweepAxis], cases: Sequence[SweepCase]) -> None:
        """Notes that a sweep starts with these cases; one that ran before starts anew, with what is known of it."""
        columns = {
            "source": storable_text(source),
            "axes": storable([axis.to_dict() for axis in axes]),
            "total": len(cases),
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
            columns |= dict.fromkeys(("started_at", "alive_at"), _now(connection))
            add(connection, sweeps, [{"id": sweep_id, "change": 0, **columns}])  # another process may, too
            before = connection.scalar(_change_of(sweep_id)) or 0
            _note(connection, sweep_id, change=before + len(rows), **columns)
            connection.execute(delete(sweep_cases).where(sweep_cases.c.sweep_id == sweep_id))
            changed = [{**row, "change": change} for change, row in enumerate(rows, before + 1)]
            if changed:
                connection.execute(insert(sweep_cases), changed)

    def ended(self, sweep_id: str, new: Sequence[GridCase]) -> None:
        """Notes cases that have just ended, but for those that another run of the same sweep has answered before."""
        with self._database.writing() as connection:
            before = connection.scalar(_change_of(sweep_id))
            if before is None:  # somebody has deleted it
                return
            of_sweep = sweep_cases.c.sweep_id == sweep_id
            numbers = sweep_cases.c.number.in_([one.number for one in new])
            waiting = select(sweep_cases.c.number, sweep_cases.c.document).where(of_sweep, numbers)
            asked = {row.number: row.document for row in connection.execute(waiting.where(~sweep_cases.c.answered))}
            told_of = {one.number: storable(one.to_dict()) for one in new}
            # A later run may have asked in another order.
            new = [one for one in new if _is_about(asked.get(one.number), told_of[one.number])]
            rows = [
                {"of": one.number, "to": change, "told": told_of[one.number]}
                for change, one in enumerate(new, before + 1)
            ]
            if rows:
                connection.execute(_telling(of_sweep), rows)
            counts = _counts(new)
            more = {name: sweeps.c[name] + counts[name] for name in ("done", "failed")}
            alive = {"alive_at": _now(connection), "stopped_at": None}
            _note(connection, sweep_id, change=before + len(new), **more, **alive)

    def give_sign(self, sweep_id: str) -> None:
        """Notes that a sweep still runs."""
        with self._database.writing() as connection:
            _note(connection, sweep_id, alive_at=_now(connection), stopped_at=None)

    def end(self, sweep_id: str, *, is_finished: bool) -> None:
        """Notes that a run has ended, unless another run of the same sweep has finished it or begun it anew."""
        is_open = sweeps.c.done < sweeps.c.total if not is_finished else sweeps.c.done >= sweeps.c.total
        with self._database.writing() as connection:
            now = _now(connection)
            columns = {"alive_at": now, "finished_at" if is_finished else "stopped_at": now}
            which = (sweeps.c.id == sweep_id) & sweeps.c.finished_at.is_(None) & is_open
            connection.execute(update(sweeps).where(which).values(**columns))

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
            now = _now(connection)
            return [_listed(row, now) for row in connection.execute(query)]

    def find(self, sweep_id: str) -> ListedSweep | None:
        """Returns the sweep with this id, or ``None``."""
        with self._database.reading() as connection:
            row = connection.execute(select(sweeps).where(sweeps.c.id == sweep_id)).first()
            return None if row is None else _listed(row, _now(connection))

    def cases(self, sweep_id: str, *, after: int = 0, limit: int | None = None) -> list[tuple[int, SweepCase]]:
        """Returns the cases that changed after a change, each with the number of its last one, in that order."""
        of_sweep = (sweep_cases.c.sweep_id == sweep_id) & (sweep_cases.c.change > after)
        query = select(sweep_cases).where(of_sweep).order_by(sweep_cases.c.change).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [(row.change, one) for row in rows if (one := _case(row)) is not None]


def _note(connection: Connection, sweep_id: str, **columns: Any) -> None:
    connection.execute(update(sweeps).where(sweeps.c.id == sweep_id).values(**columns))


def _change_of(sweep_id: str) -> Select[Any]:
    """Selects the number of a sweep's last change, for nobody else to change until the transaction ends."""
    return select(sweeps.c.change).where(sweeps.c.id == sweep_id).with_for_update()


def _telling(of_sweep: ColumnElement[bool]) -> Update:
    """Returns the statement that notes the answers ``told`` to the cases ``of`` these numbers, as changes ``to``."""
    told = bindparam("told", type_=sweep_cases.c.document.type)
    which = of_sweep & (sweep_cases.c.number == bindparam("of"))
    return update(sweep_cases).where(which).values(change=bindparam("to"), answered=True, document=told)


def _is_about(asked: Any, told: dict[str, Any]) -> bool:
    return isinstance(asked, dict) and asked.get("options") == told["options"]


def _now(connection: Connection) -> float:
    """Returns the time by the clock of the database, which is the same for processes on all machines."""
    if connection.dialect.name == "sqlite":  # a file of this machine
        return time.time()
    return float(connection.scalar(select(extract("epoch", func.clock_timestamp()))) or 0.0)


def _counts(found: Sequence[GridCase]) -> dict[str, int]:
    return {
        "done": len(found),
        "failed": sum(one.has_failed for one in found),
        "reused": sum(not one.is_new for one in found),
    }


def _listed(row: Row[Any], now: float) -> ListedSweep:
    columns = dict(row._mapping)
    del columns["number"]
    try:
        axes = tuple(SweepAxis.from_dict(axis) for axis in columns.pop("axes"))
    except (LookupError, TypeError, ValueError):  # damaged, or of another version
        axes = ()
    return ListedSweep(axes=axes, now=now, **columns)


def _case(row: Row[Any]) -> SweepCase | None:
    """Returns a case, or ``None`` if its document is damaged."""
    try:
        return SweepCase(case=GridCase.from_dict(row.document), is_answered=row.answered)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
