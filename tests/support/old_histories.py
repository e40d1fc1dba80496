"""Histories as earlier releases left them: the very statements that were run for them, written down once."""

import json

from sqlalchemy import create_engine, text

REVISIONS = ("0001", "0002", "0003", "0004", "0005")
STATEMENTS = {
    "0001": """
        CREATE TABLE alembic_version (
            version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
        CREATE TABLE jobs (
            number {serial} NOT NULL, id VARCHAR(32) NOT NULL, origin VARCHAR(16) NOT NULL, model TEXT NOT NULL,
            target TEXT NOT NULL, state VARCHAR(16) NOT NULL, "key" VARCHAR(64) NOT NULL, question JSON NOT NULL,
            created_at FLOAT NOT NULL, started_at FLOAT, finished_at FLOAT, error TEXT, error_kind VARCHAR(32),
            headline JSON, result JSON, versions JSON NOT NULL, machine JSON NOT NULL,
            PRIMARY KEY (number), UNIQUE (id));
        CREATE INDEX jobs_by_key ON jobs ("key", state);
        CREATE INDEX jobs_by_model ON jobs (model);
        CREATE INDEX jobs_by_state ON jobs (state);
        CREATE TABLE events (
            job_id VARCHAR(32) NOT NULL, number INTEGER NOT NULL, event VARCHAR(16) NOT NULL, data JSON NOT NULL,
            at FLOAT NOT NULL, PRIMARY KEY (job_id, number), FOREIGN KEY(job_id) REFERENCES jobs (id));
    """,
    "0002": """
        ALTER TABLE jobs ADD COLUMN fresh BOOLEAN DEFAULT {false} NOT NULL;
        ALTER TABLE jobs ADD COLUMN time_limit_seconds FLOAT;
    """,
    "0003": """
        CREATE TABLE configs (hash VARCHAR(64) NOT NULL, config JSON NOT NULL, PRIMARY KEY (hash));
        ALTER TABLE jobs ADD COLUMN model_name TEXT DEFAULT '' NOT NULL;
        ALTER TABLE jobs ADD COLUMN kind VARCHAR(16) DEFAULT 'analysis' NOT NULL;
        ALTER TABLE jobs ADD COLUMN recipe_words TEXT DEFAULT '' NOT NULL;
        ALTER TABLE jobs ADD COLUMN sample_words TEXT;
        ALTER TABLE jobs ADD COLUMN current_batch_size BIGINT DEFAULT '0' NOT NULL;
        ALTER TABLE jobs ADD COLUMN memory_cap_bytes BIGINT;
        ALTER TABLE jobs ADD COLUMN reusable BOOLEAN DEFAULT {true} NOT NULL;
    """,
    "0004": """
        ALTER TABLE jobs ADD COLUMN suggestions JSON;
    """,
    "0005": """
        ALTER TABLE jobs ADD COLUMN problem JSON;
    """,
}
WORDS = {
    "sqlite": {"serial": "INTEGER", "false": "0", "true": "1"},
    "postgresql": {"serial": "SERIAL", "false": "false", "true": "true"},
}
RECIPE = {
    "precision": "fp32",
    "optimizer": "adamw",
    "fused": False,
    "gradient_checkpointing": False,
    "train_mode": True,
    "loss": "model",
    "accumulation_steps": 1,
    "compile": False,
    "tf32": False,
    "channels_last": False,
}
TARGET = {"device": "auto", "gpu": None, "memory_cap_bytes": None}
REQUEST = {"model": "bert", "seq_len": None, "image_size": None, "small": None, "recipe": RECIPE, "target": TARGET}
QUESTION = {
    "request": REQUEST,
    "current_batch_size": 16,
    "max_batch": None,
    "margin": 0.05,
    "usage": {"hours_per_run": 2.0, "runs_per_year": 100.0, "people": 1},
    "price_per_hour": None,
    "all_gpus": False,
}
JOB = {
    "id": "abcabcabcabc",
    "origin": "cli",
    "model": "bert",
    "target": "auto",
    "state": "failed",
    "key": "k",
    "question": json.dumps(QUESTION),
    "created_at": 1.5,
    "started_at": 2.5,
    "finished_at": 3.5,
    "error": "no.",
    "error_kind": "worker",
    "headline": "null",
    "result": "null",
    "versions": '{"torch": "2.6.0"}',
    "machine": '{"host": "old"}',
}
EVENT = {"job_id": JOB["id"], "number": 1, "event": "error", "data": '{"state": "failed"}', "at": 3.5}


def make_old_history(url, revision, jobs=(JOB,), events=(EVENT,)):
    """A history that a release with this revision has made; documents of jobs and events are given as text."""
    engine = create_engine(url)
    with engine.begin() as connection:
        words = WORDS[connection.dialect.name]
        for number in REVISIONS[: REVISIONS.index(revision) + 1]:
            for statement in STATEMENTS[number].format(**words).split(";")[:-1]:
                connection.execute(text(statement))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
        for table, rows in (("jobs", jobs), ("events", events)):
            for row in rows:
                values = ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})"), row)
    engine.dispose()
