"""Locks a history for one server, since two would take each other's jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, text

from memorymark.errors import UsageError
from memorymark.history import Store
from memorymark.messages import Message

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# An arbitrary number that all processes share.
ADVISORY_LOCK = 5_001_5001

# PostgreSQL frees a lock once it notices that its holder's connection is gone, a moment after a server is killed.
PATIENCE_S = 2.0


@contextmanager
def only_server(store: Store) -> Iterator[None]:
    """Locks the history for this server; the lock is released when the process ends, however it ends."""
    refusal = UsageError(
        Message("another server already uses this history; stop it, or give this one its own with {serve.database}."),
        code="conflict",
        field="database",
    )
    if store.file is not None:
        with _only_server_of(store.file, refusal):
            yield
        return
    with store.connection() as connection:
        if not _lock_within(PATIENCE_S, connection):
            raise refusal
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})


def _lock_within(patience_s: float, connection: Connection) -> bool:
    """Whether PostgreSQL's lock became ours in this time."""
    give_up_at = time.monotonic() + patience_s
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_LOCK}):
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def _only_server_of(file: Path, refusal: UsageError) -> Iterator[None]:
    """Locks a file, whichever of its paths was given."""
    if file.stat().st_nlink > 1:
        raise UsageError(
            f"{file} has another name (a hard link), and SQLite puts its side files beside only one of them; remove "
            "the other, or use a symbolic link.",
            code="conflict",
            field="database",
        )
    path = Path(f"{file.resolve()}.server-lock")
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise refusal from None
    except OSError:  # a disk that is read-only or full
        with _existing_lock(path, refusal):
            yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _existing_lock(path: Path, refusal: UsageError) -> Iterator[None]:
    """Locks an existing lock file; if no server ever made one, there are no jobs to protect either."""
    with ExitStack() as held:
        if path.exists() and fcntl is not None:
            try:
                fcntl.flock(held.enter_context(path.open("rb")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise refusal from None
        yield
