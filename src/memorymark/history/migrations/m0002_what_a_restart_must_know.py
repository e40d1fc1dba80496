"""Adds what a restarted server must know about a waiting job."""

from __future__ import annotations

import sqlalchemy as sa

from memorymark.history.migrations.columns import add_columns


def upgrade(connection: sa.Connection) -> None:
    """Adds whether an earlier answer may be reused, and how long the job may take."""
    add_columns(
        connection,
        "jobs",
        sa.Column("fresh", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("time_limit_seconds", sa.Float),
    )
