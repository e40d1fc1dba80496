"""The database behind the history, SQLite or PostgreSQL: connections, transactions and checks for damage."""

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
from memorymark.history.migrations.runner import apply_next, is_current
from memorymark.messages import Message
from memorymark.suggestions import without
from memorymark.units import KIB

# The driver that the extra for PostgreSQL installs.
POSTGRESQL = "postgresql+psycopg"
# An arbitrary number that all processes share.
MIGRATION_LOCK = 5_001_0001
LEAST_FREE_BYTES = 64 * KIB
# How long a write waits for other writes, first of this process and then of others.
WAIT_SECONDS = 5.0
MIGRATION_SECONDS = 60.0
# A check for damage takes at most this long, and checks take at most this fraction of the time.
LOOK_SECONDS, LOOK_PART = 2.0, 0.01


class Database:
    """Opens transactions. Reads never wait for writes; writes run one at a time and wait for a limited time.

    A missing file is created when the database is opened, unless it ``must_exist``, and never later.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        try:
            self.url = make_url(url)
        except ArgumentError:
            raise UsageError(
                f"{url!r} is not a database URL; use one such as sqlite:////path/history.db or postgresql://host/name.",
                code="malformed",
                field="database",
            ) from None
        if self.url.drivername == "postgresql":
            self.url = self.url.set(drivername=POSTGRESQL)
        if must_exist and self.file is not None and not self.file.exists():
            raise UsageError(
                Message("there is no history in {file}; leave {serve.database} out for your own.", file=self.file),
                code="not_readable",
                field="database",
                proposals=[without("database")],
            )
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
        """Closes the connections."""
        self._engine.dispose()

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database, or ``None``."""
        is_file = self.url.get_backend_name() == "sqlite" and self.url.database not in (None, "", ":memory:")
        return Path(self.url.database or "") if is_file else None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Opens a transaction that only reads."""
        with self._told_in_a_sentence(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Opens a transaction that writes, durable at its end; raises ``UnwritableError`` if a retry cannot help."""
        is_alone = self.file is None or self._one_writer.acquire(timeout=WAIT_SECONDS)
        if not is_alone:
            raise HistoryError(f"the history in {self._place} cannot be used: another writer is busy for too long.")
        try:
            with self._told_in_a_sentence(), self._writer.begin() as connection:
                try:
                    yield connection
                except (SQLAlchemyError, MemoryMarkError):
                    raise
                except Exception as error:  # a value that no column takes, such as invalid text
                    raise UnwritableError(f"a record cannot be written to the history: {error}.") from error
        finally:
            if self.file is not None:
                self._one_writer.release()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Opens a separate connection without a transaction, for locks that outlive one."""
        with self._told_in_a_sentence(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def require_room(self) -> None:
        """Raises if nothing can be written, with a message that names no paths; does not touch the database."""
        if self.file is None:
            return
        if not self.file.exists():
            raise HistoryError("the history's file is gone; restore it, or restart the service.")
        if not (os.access(self.file, os.W_OK) and os.access(self.file.resolve().parent, os.W_OK)):
            raise HistoryError("the history is read-only, so no new jobs can be accepted; make its disk writable.")
        if shutil.disk_usage(self.file.parent).free < LEAST_FREE_BYTES:
            raise HistoryError("the history's disk is full, so no new jobs can be accepted; free some space.")

    def is_damaged(self) -> bool:
        """Whether the file of a SQLite database is damaged; checks again later, or after an unexpected error."""
        if self.file is None or (time.monotonic() < self._look_again_at and not self._is_suspect):
            return False
        start = time.monotonic()
        self._is_suspect = self._has_fault()
        if self._is_suspect:
            self._engine.dispose()  # what connections have cached must not outlast a repair
        self._look_again_at = time.monotonic() + (time.monotonic() - start) / LOOK_PART
        return self._is_suspect

    def _has_fault(self) -> bool:
        """Whether SQLite finds a fault in the file; what was not checked in time counts as sound."""
        with self._told_in_a_sentence(), closing(self._open_file()) as connection:  # a new one has no cache
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
            raise UsageError(
                "the history needs a file; give sqlite:////path/history.db.", code="malformed", field="database"
            )
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
            backend, is_ours = self.url.get_backend_name(), self.url.drivername == POSTGRESQL
            remedy = "run `pip install 'memorymark[postgres]'`" if is_ours else "install one"
            raise UsageError(
                f"there is no driver for {backend} here ({error}); {remedy}, or use SQLite.",
                code="not_installed",
                field="database",
            ) from None

    def _update_tables(self) -> None:
        """Applies missing migrations; if none is missing, writes nothing, so that a full disk does no harm."""
        until = time.monotonic() + MIGRATION_SECONDS
        while not self._is_current():
            try:
                self._apply_next()
            except HistoryError as error:  # another process may be migrating, which takes longer than a write
                is_busy = "database is locked" in str(error.__cause__)
                if not is_busy or time.monotonic() > until:
                    raise

    def _is_current(self) -> bool:
        with self.reading() as connection:
            return is_current(connection)

    def _apply_next(self) -> None:
        with self.writing() as connection:
            if self.file is None:  # one process at a time; SQLite allows only one writer anyway
                connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
                connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            apply_next(connection)

    def _open_file(self) -> sqlite3.Connection:
        """Connects to the file; read-only and without side files if the disk does not allow creating them."""
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
        # SQLAlchemy begins and commits, so that schema changes are transactional too.
        return sqlite3.connect(
            f"file:{quote(str(self.file.resolve()))}?{how}",
            uri=True,
            factory=kind,
            timeout=WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def _is_frozen(self) -> bool:
        """Whether the file is complete and nobody can change it now, because the disk is read-only or full."""
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
        """Reconnects if the file was replaced or deleted."""
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
            # A value that cannot be sent is the record's fault, not the database's.
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
    """Parses JSON; returns ``None`` for invalid JSON, so that one damaged record does not affect others."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


class _FrozenConnection(sqlite3.Connection):
    """A connection to a file that cannot change; it does not notice changes."""


def _drop_if_frozen(connection: object, record: Any) -> None:
    if isinstance(connection, _FrozenConnection):
        record.invalidate()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(1000 * WAIT_SECONDS)}")
