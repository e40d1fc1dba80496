"""The current tables; ``migrations`` creates them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite

metadata = MetaData()


jobs = Table(
    "jobs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("origin", String(16), nullable=False),
    Column("model", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("key", String(64), nullable=False),
    Column("question", JSON, nullable=False),
    Column("fresh", Boolean, nullable=False, server_default=false()),
    Column("time_limit_seconds", Float),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("error", Text),
    Column("error_kind", String(32)),
    Column("suggestions", JSON),
    Column("problem", JSON),
    Column("headline", JSON),
    Column("result", JSON),
    Column("versions", JSON, nullable=False),
    Column("machine", JSON, nullable=False),
    # The parts of the question that lists show, so that they need not read all of it.
    Column("model_name", Text, nullable=False, server_default=""),
    Column("kind", String(16), nullable=False, server_default="analysis"),
    Column("recipe_words", Text, nullable=False, server_default=""),
    Column("sample_words", Text),
    Column("current_batch_size", BigInteger, nullable=False, server_default="0"),
    Column("memory_cap_bytes", BigInteger),
    # Whether the result may be reused for the same question; not if a fault left it incomplete.
    Column("reusable", Boolean, nullable=False, server_default=true()),
    Index("jobs_by_key", "key", "state"),
    Index("jobs_by_model", "model"),
    Index("jobs_by_state", "state"),
)

events = Table(
    "events",
    metadata,
    Column("job_id", String(32), ForeignKey("jobs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("event", String(16), nullable=False),
    Column("data", JSON, nullable=False),
    Column("at", Float, nullable=False),
)

# Configs that callers pasted, each stored once; questions and results refer to them by hash.
configs = Table(
    "configs",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("config", JSON, nullable=False),
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("source", Text, nullable=False),
    Column("axes", JSON, nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("reused", Integer, nullable=False),
    # The number of the last change to a case.
    Column("change", BigInteger, nullable=False),
    Column("started_at", Float, nullable=False),
    # When its process last gave a sign of life, and when it stopped or finished.
    Column("alive_at", Float, nullable=False),
    Column("stopped_at", Float),
    Column("finished_at", Float),
)

sweep_cases = Table(
    "sweep_cases",
    metadata,
    Column("sweep_id", String(32), ForeignKey("sweeps.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("change", BigInteger, nullable=False),
    Column("answered", Boolean, nullable=False),
    Column("document", JSON, nullable=False),
    Index("sweep_cases_by_change", "sweep_id", "change"),
)


INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
LONGEST_TEXT = 2000


def add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Inserts rows that do not exist yet, since a write that seemed to fail may have succeeded."""
    if rows:
        connection.execute(INSERTS[connection.dialect.name](table).on_conflict_do_nothing(), rows)


def storable_text(value: str | None) -> str | None:
    """Makes text storable in any database and short enough for lists: no lone surrogates, no NUL."""
    return None if value is None else value[:LONGEST_TEXT].encode("utf-8", "replace").decode().replace("\0", "?")


def storable(value: Any) -> Any:
    """Makes all text of a document storable in any database."""
    if isinstance(value, dict):
        return {storable_text(name): storable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [storable(part) for part in value]
    return storable_text(value) if isinstance(value, str) else value
