"""Applies missing migrations, each in one transaction, and records the last one."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from memorymark.errors import HistoryError
from memorymark.history.migrations import (
    m0001_jobs_and_events,
    m0002_what_a_restart_must_know,
    m0003_lists_and_configs,
    m0004_what_fits_instead,
    m0005_errors_as_documents,
    m0006_sweeps,
)

MIGRATIONS: dict[str, Callable[[sa.Connection], None]] = {
    "0001": m0001_jobs_and_events.upgrade,
    "0002": m0002_what_a_restart_must_know.upgrade,
    "0003": m0003_lists_and_configs.upgrade,
    "0004": m0004_what_fits_instead.upgrade,
    "0005": m0005_errors_as_documents.upgrade,
    "0006": m0006_sweeps.upgrade,
}
# Where Alembic, which earlier versions used, recorded the last migration; their histories still work.
_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def is_current(connection: sa.Connection) -> bool:
    """Whether the tables are up to date; raises if a newer version has changed them."""
    return not _missing(connection)


def apply_next(connection: sa.Connection) -> None:
    """Applies and records the first missing migration, if any, in the caller's transaction."""
    missing = _missing(connection)
    if not missing:
        return
    revision = missing[0]
    MIGRATIONS[revision](connection)
    _version.create(connection, checkfirst=True)
    connection.execute(sa.delete(_version))
    connection.execute(sa.insert(_version).values(version_num=revision))


def _missing(connection: sa.Connection) -> list[str]:
    """Returns the migrations that were not applied yet, in order."""
    known = list(MIGRATIONS)
    if not sa.inspect(connection).has_table(_version.name):
        return known
    revision = connection.scalar(sa.select(_version.c.version_num))
    if revision is None:
        return known
    if revision not in known:
        raise HistoryError("the history was written by a newer MemoryMark; update this one, or use another history.")
    return known[known.index(revision) + 1 :]
