"""The tables as they are now; ``migrations`` holds how they came to be."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
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
    Column("headline", JSON),
    Column("result", JSON),
    Column("versions", JSON, nullable=False),
    Column("machine", JSON, nullable=False),
    # What lists show of the question, so that they need not read it.
    Column("model_name", Text, nullable=False, server_default=""),
    Column("kind", String(16), nullable=False, server_default="analysis"),
    Column("recipe_words", Text, nullable=False, server_default=""),
    Column("sample_words", Text),
    Column("current_batch_size", BigInteger, nullable=False, server_default="0"),
    Column("memory_cap_bytes", BigInteger),
    # Whether the result may answer the same question again; not where a fault cut it short.
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

# Configs of models that callers pasted, each kept once; questions and results refer to them by their hash.
configs = Table(
    "configs",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("config", JSON, nullable=False),
)


LONGEST_TEXT = 2000


def storable_text(value: str | None) -> str | None:
    """Text that every database takes and a list can show: no half of a surrogate pair, no zero, no whole document."""
    return None if value is None else value[:LONGEST_TEXT].encode("utf-8", "replace").decode().replace("\0", "?")
