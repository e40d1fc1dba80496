"""The database behind the history: connections, transactions, and what is wrong with it. SQLite or PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from memorymark.errors import HistoryError, MemoryMarkError, UnwritableError, UsageError
from memorymark.history.migrations import is_current, migrate
from memorymark.units import KIB

# Any number will do, if everyone uses the same.
MIGRATION_LOCK = 5_001_0001
LEAST_FREE_BYTES = 64 * KIB
# How long a write waits for another one: of this process, and then of others.
WAIT_SECONDS = 5.0
MIGRATION_SECONDS = 60.0
# A search for damage takes no longer than this, and no more than a small part of the time.
LOOK_SECONDS, LOOK_PART = 2.0, 0.01


class Database:
    """Gives transactions. Reading never waits for whoever writes, and one at a time writes, for a bounded time.

    A file that is not there is made when the database is opened, unless it ``must_exist``; never later.
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
        self._one_writer = threading.Lock()
        self._may_make_file = True
        self._is_suspect = True
        self._look_again_at = 0.0
        self._engine = self._connect()
        self._writer = self._engine.execution_options(writes=True)
        try:
            self._update_tables()
        except BaseException:
            self._engine.dispose()
            raise
        self._may_make_file = False

    def close(self) -> None:
        """Gives up the connections."""
        self._engine.dispose()

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database."""
        is_file = self.url.get_backend_name() == "sqlite" and self.url.database not in (None, "", ":memory:")
        return Path(self.url.database or "") if is_file else None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with self._told_in_a_sentence(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, durable at its end; raises ``UnwritableError`` if no other try can help."""
        is_alone = self.file is None or self._one_writer.acquire(timeout=WAIT_SECONDS)
        if not is_alone:
            raise HistoryError(f"the history in {self._place} cannot be used: somebody else writes to it for long.")
        try:
            with self._told_in_a_sentence(), self._writer.begin() as connection:
                try:
                    yield connection
                except (SQLAlchemyError, MemoryMarkError):
                    raise
                except Exception as error:  # a value that no column takes, such as text that is none
                    raise UnwritableError(f"a record cannot be written to the history: {error}.") from error
        finally:
            if self.file is not None:
                self._one_writer.release()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection of its own, without a transaction, for what outlives one."""
        with self._told_in_a_sentence(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def require_room(self) -> None:
        """Raises, with a sentence for everyone, if nothing can be written; does not touch the database."""
        if self.file is None:
            return
        if not self.file.exists():
            raise HistoryError("the file of the history is gone; put it back, or start the service again.")
        if not (os.access(self.file, os.W_OK) and os.access(self.file.resolve().parent, os.W_OK)):
            raise HistoryError("the history is read-only, so that no new jobs can be taken; make its disk writable.")
        if shutil.disk_usage(self.file.parent).free < LEAST_FREE_BYTES:
            raise HistoryError("the disk of the history is full, so that no new jobs can be taken; free some.")

    def is_damaged(self) -> bool:
        """Whether the file of a SQLite database is damaged; looks again after a while, or after a bad surprise."""
        if self.file is None or (time.monotonic() < self._look_again_at and not self._is_suspect):
            return False
        start = time.monotonic()
        self._is_suspect = self._has_fault()
        if self._is_suspect:
            self._engine.dispose()  # what connections have read and keep must not outlast a repair
        self._look_again_at = time.monotonic() + (time.monotonic() - start) / LOOK_PART
        return self._is_suspect

    def _has_fault(self) -> bool:
        """Whether SQLite finds a fault in the file; what could not be looked at in time counts as sound."""
        with self._told_in_a_sentence(), closing(self._open_file()) as connection:  # one that has read nothing yet
            is_late = threading.Event()

            def give_up() -> None:
                is_late.set()
                connection.interrupt()

            timer = threading.Timer(LOOK_SECONDS, give_up)
            timer.start()
            try:
                return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok") and not is_late.is_set()
            except sqlite3.OperationalError:
                if is_late.is_set():
                    return False
                raise
            except sqlite3.DatabaseError:
                return True
            finally:
                timer.cancel()
                timer.join()

    def _connect(self) -> Engine:
        if self.url.get_backend_name() != "sqlite":
            engine = self._make_engine(pool_pre_ping=True)
            event.listen(engine, "begin", _begin_postgresql)
            return engine
        if self.file is None:
            raise UsageError("the history needs a file; give sqlite:////path/history.db.")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HistoryError(f"the history cannot be kept in {self.file.parent}: {error.strerror}.") from None
        engine = self._make_engine(creator=self._open_file)
        event.listen(engine, "connect", self._remember_file)
        event.listen(engine, "checkout", self._require_same_file)
        event.listen(engine, "checkin", _drop_if_frozen)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _make_engine(self, **options: Any) -> Engine:
        try:
            return create_engine(
                self.url,
                pool_size=20,
                max_overflow=20,
                pool_timeout=WAIT_SECONDS,
                json_deserializer=_document,
                **options,
            )
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            backend = self.url.get_backend_name()
            raise UsageError(f"there is no driver for {backend} here ({error}); install one, or use SQLite.") from None

    def _update_tables(self) -> None:
        """Applies the migrations that are missing; where none is, nothing is written, and the disk may be full."""
        until = time.monotonic() + MIGRATION_SECONDS
        while not self._is_current():
            try:
                self._migrate()
            except HistoryError as error:  # another process may be at it, for longer than a write takes
                is_busy = "database is locked" in str(error.__cause__)
                if not is_busy or time.monotonic() > until:
                    raise

    def _is_current(self) -> bool:
        with self.reading() as connection:
            return is_current(connection)

    def _migrate(self) -> None:
        with self.writing() as connection:
            if self.file is None:  # one process at a time; SQLite lets only one write anyway
                connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
                connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            migrate(connection)

    def _open_file(self) -> sqlite3.Connection:
        """A connection to the file: as ever, or without its side files where the disk lets nobody make them."""
        mode = "rwc" if self._may_make_file else "rw"
        connection = self._open_as(f"mode={mode}")
        try:
            for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {setting}")
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        except sqlite3.OperationalError:
            connection.close()
            if not self._is_frozen():
                raise
            return self._open_as("mode=ro&immutable=1", _FrozenConnection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_as(self, how: str, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
        assert self.file is not None  # noqa: S101 - only files are opened
        # Begin and commit are SQLAlchemy's, so that tables change in transactions too.
        return sqlite3.connect(
            f"file:{quote(str(self.file.resolve()))}?{how}",
            uri=True,
            factory=kind,
            timeout=WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def _is_frozen(self) -> bool:
        """Whether all there is lies in the file, which nobody can change now: the disk is read-only or full."""
        assert self.file is not None  # noqa: S101 - only files are opened
        waiting = Path(f"{self.file.resolve()}-wal")
        try:
            self.require_room()
        except HistoryError:
            return self.file.exists() and not (waiting.exists() and waiting.stat().st_size)
        return False

    def _remember_file(self, _: object, record: Any) -> None:
        record.info["file"] = self._identity()

    def _require_same_file(self, _: object, record: Any, __: object) -> None:
        """Has a connection to a file that was replaced or deleted made anew."""
        if record.info.get("file") != self._identity():
            raise DisconnectionError("the file of the history is another one")

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.file.stat() if self.file is not None else None
        except OSError:
            found = None
        return (found.st_dev, found.st_ino) if found is not None else None

    @property
    def _place(self) -> str:
        return str(self.file or self.url.render_as_string(hide_password=True))

    @contextmanager
    def _told_in_a_sentence(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            sentence = f"the history in {self._place} cannot be used: {reason}."
            # A value that cannot be sent is no fault of the database.
            is_of_the_record = isinstance(error, IntegrityError | DataError) or (
                isinstance(error, SQLAlchemyError)
                and not isinstance(error, DBAPIError)
                and getattr(error, "orig", None) is not None
            )
            if is_of_the_record:
                raise UnwritableError(sentence) from error
            if isinstance(error, DatabaseError | sqlite3.DatabaseError) and not isinstance(
                error, OperationalError | sqlite3.OperationalError
            ):
                self._is_suspect = True
            raise HistoryError(sentence) from error


def _document(text: str) -> Any:
    """JSON as it is read; what is none is nothing, so that one damaged record does not cost the others."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


class _FrozenConnection(sqlite3.Connection):
    """A connection to a file that cannot change; it would not notice if it did."""


def _drop_if_frozen(connection: object, record: Any) -> None:
    if isinstance(connection, _FrozenConnection):
        record.invalidate()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(1000 * WAIT_SECONDS)}")
