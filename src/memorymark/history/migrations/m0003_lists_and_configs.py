"""Adds columns for what lists show, and a table that stores each config once."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from memorymark.history.migrations import m0003_documents as documents
from memorymark.history.migrations.columns import add_columns

configs = sa.Table(
    "configs",
    sa.MetaData(),
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("config", sa.JSON, nullable=False),
)
jobs = sa.table(
    "jobs",
    *(sa.column(name, sa.Text) for name in ("model", "model_name", "kind", "recipe_words", "sample_words")),
    *(sa.column(name, sa.JSON) for name in ("question", "result")),
    *(sa.column(name, sa.BigInteger) for name in ("number", "current_batch_size", "memory_cap_bytes")),
)
# Read as text, so that one record with invalid JSON does not stop the others.
as_text = (sa.cast(jobs.c.question, sa.Text).label("question"), sa.cast(jobs.c.result, sa.Text).label("result"))


def upgrade(connection: sa.Connection) -> None:
    """Adds the columns and the table, and fills them."""
    configs.create(connection)
    add_columns(
        connection,
        "jobs",
        sa.Column("model_name", sa.Text, nullable=False, server_default=""),
        sa.Column("kind", sa.String(16), nullable=False, server_default="analysis"),
        sa.Column("recipe_words", sa.Text, nullable=False, server_default=""),
        sa.Column("sample_words", sa.Text),
        sa.Column("current_batch_size", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("memory_cap_bytes", sa.BigInteger),
        sa.Column("reusable", sa.Boolean, nullable=False, server_default=sa.true()),
    )
    kept: set[str] = set()
    # One by one, since all jobs together may not fit in memory.
    for number in connection.scalars(sa.select(jobs.c.number).order_by(jobs.c.number)).all():
        row = connection.execute(sa.select(jobs.c.model, *as_text).where(jobs.c.number == number)).one()
        found = _columns(row)
        if found is None:
            continue
        columns, pasted = found
        for name, config in pasted.items():
            if name not in kept:
                connection.execute(sa.insert(configs).values(hash=name, config=config))
                kept.add(name)
        connection.execute(sa.update(jobs).where(jobs.c.number == number).values(**columns))


def _columns(row: sa.Row[Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Returns the columns of a job and the configs in its documents, or ``None`` if these cannot be read."""
    try:
        asked, result = json.loads(row.question), json.loads(row.result) if row.result else None
        columns = documents.listed(row.model, asked, result)
        question, pasted = documents.put_away(asked)
        answer, also_pasted = documents.put_away(result)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None
    if pasted or also_pasted:
        columns |= {"question": question, "result": answer}
    return columns, pasted | also_pasted
