"""The history's database: SQLite in a file, or PostgreSQL by its URL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row, create_engine, event, func, insert, make_url, select, update
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from memorymark.errors import HistoryError, UsageError
from memorymark.history.job import UNFINISHED, Job, JobEvent
from memorymark.history.migrations import migrate
from memorymark.history.searching import has_words
from memorymark.history.tables import events, jobs
from memorymark.units import KIB

URL_VARIABLE = "MEMORYMARK_DATABASE"
# Any number will do, if everyone uses the same.
MIGRATION_LOCK = 5_001_0001
LEAST_FREE_BYTES = 64 * KIB
# How long a write waits for another process's.
BUSY_SECONDS = 10
EVERYTHING_BUT_RESULT = [column for column in jobs.c if column.name != "result"]


def default_url() -> str:
    """Where the history is: what the environment says, or a file of the user's."""
    given = os.environ.get(URL_VARIABLE)
    if given:
        return given
    from platformdirs import user_data_path

    return f"sqlite:///{user_data_path('memorymark') / 'history.db'}"


class Store:
    """Reads and writes jobs; each call is one transaction, durable when it returns.

    A file that is not there is made, unless it ``must_exist``.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        try:
            self.url = make_url(url)
        except ArgumentError:
            raise UsageError(
                f"{url!r} is no database URL; use one such as sqlite:////path/history.db or postgresql://host/name."
            ) from None
        if self.url.drivername == "postgresql":
            self.url = self.url.set(drivername="postgresql+psycopg")
        if must_exist and self.file is not None and not self.file.exists():
            raise UsageError(f"there is no history in {self.file}; leave --database out for your own.")
        self._engine = self._connect()
        try:
            with self._transaction() as connection:
                self._wait_for_others(connection)
                migrate(connection)
        except BaseException:
            self._engine.dispose()
            raise

    def close(self) -> None:
        """Gives up the connections."""
        self._engine.dispose()

    def add(self, job: Job, happened: Sequence[JobEvent] = ()) -> None:
        """Writes a job that is not there yet."""
        with self._transaction() as connection:
            connection.execute(insert(jobs).values(**_job_row(job)))
            _add_events(connection, job.id, happened)

    def save(self, job: Job, happened: Sequence[JobEvent] = ()) -> None:
        """Writes what has changed about a job, and what has happened to it since the last time."""
        with self._transaction() as connection:
            found = connection.execute(update(jobs).where(jobs.c.id == job.id).values(**_job_row(job)))
            if found.rowcount:  # else somebody has deleted it from the database
                _add_events(connection, job.id, happened)

    def job(self, job_id: str) -> Job | None:
        """The job with this id."""
        with self._transaction() as connection:
            row = connection.execute(select(jobs).where(jobs.c.id == job_id)).first()
        return _job(row) if row else None

    def find(self, start_of_id: str) -> Job:
        """The job whose id begins so; people copy the first few characters."""
        with self._transaction() as connection:
            begins = jobs.c.id.startswith(start_of_id, autoescape=True)
            rows = connection.execute(select(jobs).where(begins).limit(2)).all()
        if not rows or not start_of_id:
            raise UsageError(f"the history has no job {start_of_id!r}; `memorymark history` lists them.")
        if len(rows) > 1:
            raise UsageError(f"several jobs begin with {start_of_id!r}; give more of the id.")
        return _job(rows[0])

    def jobs(
        self,
        *,
        model: str | None = None,
        state: str | None = None,
        search: str = "",
        limit: int = 50,
        before: str | None = None,
    ) -> list[tuple[Job, dict[str, Any] | None]]:
        """Jobs without their results but with the headlines of these, the latest first.

        ``search`` are words that a job must have, all of them; ``before`` is the id of a job.
        """
        query = select(*EVERYTHING_BUT_RESULT).order_by(jobs.c.number.desc()).limit(limit)
        if model is not None:
            query = query.where(jobs.c.model == model)
        if state is not None:
            query = query.where(jobs.c.state == state)
        query = query.where(*has_words(search))
        with self._transaction() as connection:
            if before is not None:
                number = connection.scalar(select(jobs.c.number).where(jobs.c.id == before))
                if number is None:
                    raise UsageError(f"the history has no job {before!r} to look before.")
                query = query.where(jobs.c.number < number)
            return [(_job(row), row.headline) for row in connection.execute(query)]

    def knows(self, model: str) -> bool:
        """Whether there is a job about a model with this id."""
        with self._transaction() as connection:
            return connection.execute(select(jobs.c.id).where(jobs.c.model == model).limit(1)).first() is not None

    def events(self, job_id: str, after: int = 0) -> list[JobEvent]:
        """What happened to a job after the event with this number."""
        of_job = (events.c.job_id == job_id) & (events.c.number > after)
        with self._transaction() as connection:
            rows = connection.execute(select(events).where(of_job).order_by(events.c.number)).all()
        return [JobEvent(row.number, row.event, row.data, row.at) for row in rows]

    def answered(self, key: str) -> Job | None:
        """The latest job that answered the same question, if one did."""
        same = (jobs.c.key == key) & (jobs.c.state == "done")
        with self._transaction() as connection:
            row = connection.execute(select(jobs).where(same).order_by(jobs.c.number.desc()).limit(1)).first()
        return _job(row) if row else None

    def unfinished(self) -> list[Job]:
        """Jobs that a server left queued or running, in the order of their arrival."""
        left = jobs.c.state.in_(UNFINISHED) & (jobs.c.origin == "http")
        query = select(*EVERYTHING_BUT_RESULT).where(left).order_by(jobs.c.number)
        with self._transaction() as connection:
            return [_job(row) for row in connection.execute(query)]

    def count(self) -> int:
        """How many jobs there are."""
        with self._transaction() as connection:
            return connection.scalar(select(func.count()).select_from(jobs)) or 0

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database."""
        is_file = self.url.get_backend_name() == "sqlite" and self.url.database not in (None, "", ":memory:")
        return Path(self.url.database or "") if is_file else None

    @property
    def is_disk_full(self) -> bool:
        """Whether the file of a SQLite database cannot grow."""
        try:
            return self.file is not None and shutil.disk_usage(self.file.parent).free < LEAST_FREE_BYTES
        except OSError:
            return False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection of its own, without a transaction, for what outlives one."""
        with self._told_in_a_sentence(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def _connect(self) -> Engine:
        if self.url.get_backend_name() != "sqlite":
            return self._make_engine(pool_pre_ping=True)
        if self.file is None:
            raise UsageError("the history needs a file; give sqlite:////path/history.db.")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HistoryError(f"the history cannot be kept in {self.file.parent}: {error.strerror}.") from None
        engine = self._make_engine(connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _wait_for_others(self, connection: Connection) -> None:
        """Lets one process at a time change the tables; the transaction's end lets the next one in."""
        if self.file is not None:
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))

    def _make_engine(self, **options: Any) -> Engine:
        try:
            return create_engine(self.url, pool_size=20, max_overflow=20, **options)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            backend = self.url.get_backend_name()
            raise UsageError(f"there is no driver for {backend} here ({error}); install one, or use SQLite.") from None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._told_in_a_sentence(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _told_in_a_sentence(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            where = self.file or self.url.render_as_string(hide_password=True)
            raise HistoryError(f"the history in {where} cannot be used: {reason}.") from error


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # begin and commit are SQLAlchemy's, so that tables change in transactions too
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _add_events(connection: Connection, job_id: str, happened: Sequence[JobEvent]) -> None:
    if happened:
        rows = [
            {"job_id": job_id, "number": one.number, "event": one.event, "data": one.data, "at": one.at}
            for one in happened
        ]
        connection.execute(insert(events), rows)


def _job_row(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "origin": job.origin,
        "model": job.model,
        "target": job.target_name,
        "state": job.state,
        "key": job.key,
        "question": job.asked,
        "fresh": job.fresh,
        "time_limit_seconds": job.time_limit_seconds,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "error": job.error,
        "error_kind": job.error_kind,
        "headline": job.headline,
        "result": job.result,
        "versions": job.versions,
        "machine": job.machine,
    }


def _job(row: Row[Any]) -> Job:
    return Job(
        id=row.id,
        origin=row.origin,
        model=row.model,
        asked=row.question,
        fresh=row.fresh,
        time_limit_seconds=row.time_limit_seconds,
        key=row.key,
        created_at=row.created_at,
        versions=row.versions,
        machine=row.machine,
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        error_kind=row.error_kind,
        result=getattr(row, "result", None),
    )
