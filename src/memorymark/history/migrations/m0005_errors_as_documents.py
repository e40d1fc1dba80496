"""Adds errors as documents, which can be rendered in any dialect."""

from __future__ import annotations

import sqlalchemy as sa

from memorymark.history.migrations.columns import add_columns


def upgrade(connection: sa.Connection) -> None:
    """Adds the document of the error that a job ended with."""
    add_columns(connection, "jobs", sa.Column("problem", sa.JSON))
