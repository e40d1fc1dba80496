"""One server for each history: two would take each other's jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout
from sqlalchemy import text

from memorymark.errors import UsageError
from memorymark.history import Store

# Any number will do, if everyone uses the same.
ADVISORY_LOCK = 5_001_5001


@contextmanager
def only_server(store: Store) -> Iterator[None]:
    """Holds the history for this server; it is free again when the process ends, however it ends."""
    refusal = UsageError(
        "another server already works on this history; stop it, or give this one its own with --database."
    )
    if store.file is not None:
        lock = FileLock(f"{store.file}.server-lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise refusal from None
        try:
            yield
        finally:
            lock.release()
        return
    with store.connection() as connection:
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": ADVISORY_LOCK}):
            raise refusal
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})
