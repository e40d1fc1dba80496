"""What lists show has columns of its own, and configs are kept once."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from memorymark.history.configs import put_away
from memorymark.history.job import Job
from memorymark.history.tables import storable_text

revision = "0003"
down_revision = "0002"

jobs = sa.table(
    "jobs",
    *(sa.column(name, sa.Text) for name in ("id", "model", "model_name", "kind", "recipe_words", "sample_words")),
    *(sa.column(name, sa.JSON) for name in ("question", "result")),
    *(sa.column(name, sa.BigInteger) for name in ("number", "current_batch_size", "memory_cap_bytes")),
)
# As text, because one that is no JSON must not stop the others.
as_text = (sa.cast(jobs.c.question, sa.Text).label("question"), sa.cast(jobs.c.result, sa.Text).label("result"))


def upgrade() -> None:
    """Adds the columns and the table, and fills them."""
    configs = op.create_table(
        "configs",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("config", sa.JSON, nullable=False),
    )
    op.add_column("jobs", sa.Column("model_name", sa.Text, nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("kind", sa.String(16), nullable=False, server_default="analysis"))
    op.add_column("jobs", sa.Column("recipe_words", sa.Text, nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("sample_words", sa.Text))
    op.add_column("jobs", sa.Column("current_batch_size", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("memory_cap_bytes", sa.BigInteger))
    op.add_column("jobs", sa.Column("reusable", sa.Boolean, nullable=False, server_default=sa.true()))
    connection = op.get_bind()
    kept: set[str] = set()
    # One by one: all of them may be more than there is memory for.
    for number in connection.scalars(sa.select(jobs.c.number).order_by(jobs.c.number)).all():
        row = connection.execute(sa.select(jobs.c.id, jobs.c.model, *as_text).where(jobs.c.number == number)).one()
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
    """The columns of a job and the configs in its documents; ``None`` where these cannot be read."""
    try:
        asked, result = json.loads(row.question), json.loads(row.result) if row.result else None
        job = Job(
            id=row.id,
            origin="http",
            model=row.model,
            asked=asked,
            key="",
            created_at=0.0,
            versions={},
            machine={},
            result=result,
        )
        columns: dict[str, Any] = {
            "model_name": storable_text(job.model_name),
            "kind": job.kind,
            "recipe_words": storable_text(job.recipe_words),
            "sample_words": storable_text(job.sample_words),
            "current_batch_size": _storable_number(job.current_batch_size) or 0,
            "memory_cap_bytes": _storable_number(job.memory_cap_bytes),
        }
        question, pasted = put_away(asked)
        answer, also_pasted = put_away(result)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None
    if pasted or also_pasted:
        columns |= {"question": question, "result": answer}
    return columns, pasted | also_pasted


def _storable_number(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
