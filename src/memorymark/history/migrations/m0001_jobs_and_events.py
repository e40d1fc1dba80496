"""Creates the tables of jobs and their events."""

from __future__ import annotations

import sqlalchemy as sa


def upgrade(connection: sa.Connection) -> None:
    """Creates both tables."""
    tables = sa.MetaData()
    sa.Table(
        "jobs",
        tables,
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("question", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("finished_at", sa.Float),
        sa.Column("error", sa.Text),
        sa.Column("error_kind", sa.String(32)),
        sa.Column("headline", sa.JSON),
        sa.Column("result", sa.JSON),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("machine", sa.JSON, nullable=False),
        sa.Index("jobs_by_key", "key", "state"),
        sa.Index("jobs_by_model", "model"),
        sa.Index("jobs_by_state", "state"),
    )
    sa.Table(
        "events",
        tables,
        sa.Column("job_id", sa.String(32), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)
