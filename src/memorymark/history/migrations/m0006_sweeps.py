"""Creates the tables of sweeps and their cases."""

from __future__ import annotations

import sqlalchemy as sa


def upgrade(connection: sa.Connection) -> None:
    """Creates both tables."""
    tables = sa.MetaData()
    sa.Table(
        "sweeps",
        tables,
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("axes", sa.JSON, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("reused", sa.Integer, nullable=False),
        sa.Column("change", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("alive_at", sa.Float, nullable=False),
        sa.Column("stopped_at", sa.Float),
        sa.Column("finished_at", sa.Float),
    )
    sa.Table(
        "sweep_cases",
        tables,
        sa.Column("sweep_id", sa.String(32), sa.ForeignKey("sweeps.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("change", sa.BigInteger, nullable=False),
        sa.Column("answered", sa.Boolean, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Index("sweep_cases_by_change", "sweep_id", "change"),
    )
    tables.create_all(connection, checkfirst=False)
