"""Adds the changes found to fit for trainings that do not."""

from __future__ import annotations

import sqlalchemy as sa

from memorymark.history.migrations.columns import add_columns


def upgrade(connection: sa.Connection) -> None:
    """Adds the suggestions of a job whose training does not fit."""
    add_columns(connection, "jobs", sa.Column("suggestions", sa.JSON))
