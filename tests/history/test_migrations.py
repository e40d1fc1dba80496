"""Histories of earlier releases, and of later ones."""

import gc
import json
import subprocess
import sys
from contextlib import closing

import pytest
from sqlalchemy import create_engine, inspect, text

from memorymark.errors import HistoryError
from memorymark.history import Store
from memorymark.history.migrations.runner import MIGRATIONS
from memorymark.history.tables import metadata
from support.old_histories import JOB, QUESTION, RECIPE, REQUEST, REVISIONS, make_old_history

LATEST = max(MIGRATIONS)
CONFIG = {"model_type": "bert", "architecture": ["x"] * 10}


def test_a_new_database_gets_the_tables_as_they_are_described(new_url):
    url = new_url()
    Store(url).close()

    assert tables_of(url) == described(new_url)
    assert revision_of(url) == LATEST


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_history_of_an_earlier_release_is_kept_whole(new_url, revision):
    url = new_url()
    make_old_history(url, revision)

    with closing(Store(url)) as store:
        job, events = store.find("abc"), store.events("abcabcabcabc")

    assert tables_of(url) == described(new_url)
    assert revision_of(url) == LATEST
    assert (job.state, job.created_at, job.error, job.machine) == ("failed", 1.5, "no.", {"host": "old"})
    assert (job.question.request.model, job.question.margin, job.result) == ("bert", 0.05, None)
    assert [(event.number, event.event, event.data, event.at) for event in events] == [
        (1, "error", {"state": "failed"}, 3.5)
    ]


def test_jobs_of_an_earlier_release_get_what_lists_show(url):
    bf16 = {**REQUEST, "model": "gpt2", "seq_len": 512, "recipe": {**RECIPE, "precision": "bf16", "compile": True}}
    capped = {**REQUEST, "target": {"device": "auto", "gpu": "a10", "memory_cap_bytes": 2**33}}
    measured = {"info": {"optimizer": "Lion", "weights_dtype": "bf16"}}
    make_old_history(
        url,
        "0002",
        [
            old_job(1, {"request": bf16, "current_batch_size": 4}),
            old_job(2, {"request": capped, "all_gpus": True}, state="done", result=json.dumps(measured)),
            old_job(3, {"seq_lens": [128, 512]}),
        ],
        events=(),
    )

    with closing(Store(url)) as store:
        listed = [
            (job.model_name, job.kind, job.recipe_words, job.sample_words, job.current_batch_size, job.memory_cap_bytes)
            for job in reversed(store.jobs())
        ]

    assert listed == [
        ("gpt2", "analysis", "bf16, AdamW, torch.compile", "512 tokens", 4, None),
        ("bert", "comparison", "bf16 weights, Lion", None, 16, 2**33),
        ("bert", "sweep", "fp32, AdamW", "128, 512 tokens", 16, None),
    ]


def test_configs_of_an_earlier_release_are_kept_once(url):
    request = {**REQUEST, "config": CONFIG}
    result = {"request": {"config": CONFIG}, "analyses": {"a10": {"request": {"model": "m", "config": CONFIG}}}}
    pasted = [
        old_job(1, {"request": request}),
        old_job(2, {"request": request}, state="done", key="q", result=json.dumps(result)),
    ]
    make_old_history(url, "0002", pasted, events=())

    with closing(Store(url)) as store:
        jobs = [store.job(job["id"]) for job in pasted]
        answered = store.answered("q")
        with store.connection() as connection:
            rows = connection.execute(text("SELECT CAST(question AS TEXT), CAST(result AS TEXT) FROM jobs")).all()
            count = connection.scalar(text("SELECT COUNT(*) FROM configs"))

    assert [job.asked["request"] for job in jobs] == [request, request]
    assert jobs[0].result is None
    assert (jobs[1].result["request"], jobs[1].result["analyses"]["a10"]["request"]) == (
        {"config": CONFIG},
        {"model": "m", "config": CONFIG},
    )
    assert answered == jobs[1]
    assert ("architecture" in str(rows), count) == (False, 1)


def test_what_no_column_takes_does_not_keep_a_history_of_an_earlier_release_from_opening(tmp_path):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    strange = [
        old_job(1, {"request": {"model": "half \ud800"}}),
        old_job(2, {"request": {"model": "b\0rt"}}),
        old_job(3, {"current_batch_size": 2**70}),
        {**old_job(4), "question": "["},
    ]
    make_old_history(url, "0002", strange, events=())

    with closing(Store(url)) as store:
        assert [job.model_name for job in reversed(store.jobs())] == ["half ?", "b?rt", "bert", ""]


def test_a_change_that_fails_leaves_the_tables_as_they_were(url):
    make_old_history(url, "0002")
    execute(url, "ALTER TABLE jobs ADD COLUMN reusable INTEGER")  # the last one that the third change adds
    before = tables_of(url)

    with pytest.raises(HistoryError, match=r"^the history in .* cannot be used: .*reusable.*\.$"):
        Store(url)

    assert (tables_of(url), revision_of(url)) == (before, "0002")


def test_a_history_whose_first_change_was_never_noted_begins_with_it(url):
    execute(url, "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")

    Store(url).close()

    assert revision_of(url) == LATEST


def test_a_history_of_a_later_release_is_refused_in_a_sentence(url, store):
    with store.connection() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.commit()
    store.close()

    with pytest.raises(HistoryError, match=r"^the history was written by a newer MemoryMark; .*\.$"):
        Store(url)
    gc.collect()  # what was left open would be noticed here, and warnings are errors


def test_processes_that_open_a_new_history_at_the_same_time_all_can(url):
    code = "import sys; from memorymark.history import Store; input(); Store(sys.argv[1]).close()"
    several = [
        subprocess.Popen([sys.executable, "-c", code, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = []
    for process in several:  # all have imported what they need and wait for the word
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in several:
        said.append(process.communicate(timeout=60)[1])

    assert [process.returncode for process in several] == [0] * 4, said
    assert revision_of(url) == LATEST


def execute(url, statement):
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def old_job(number, changes=None, **columns):
    """A job with a number for its id; ``changes`` are those of its question."""
    return {**JOB, "id": f"{number:012}", "question": json.dumps({**QUESTION, **(changes or {})}), **columns}


def tables_of(url):
    """All about the tables that can be asked for, but for the order of columns and indexes."""

    def by_name(several):
        return sorted(({**one, "type": str(one.get("type"))} for one in several), key=lambda one: one["name"] or "")

    engine = create_engine(url)
    with engine.connect() as connection:
        asked = inspect(connection)
        found = {
            name: (
                by_name(asked.get_columns(name)),
                by_name(asked.get_indexes(name)),
                by_name(asked.get_unique_constraints(name)),
                asked.get_pk_constraint(name),
                asked.get_foreign_keys(name),
            )
            for name in asked.get_table_names()
            if name != "alembic_version"
        }
    engine.dispose()
    return found


def described(new_url):
    """The same of a database with the tables as the program describes them."""
    url = new_url()
    engine = create_engine(url)
    metadata.create_all(engine)
    engine.dispose()
    return tables_of(url)


def revision_of(url):
    engine = create_engine(url)
    with engine.connect() as connection:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    engine.dispose()
    return revision
