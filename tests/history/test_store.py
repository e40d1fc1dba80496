"""The history in both databases that it can be kept in."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import text

from memorymark.errors import HistoryError, UnwritableError, UsageError
from memorymark.history import ListedJob, Store, default_url
from memorymark.server.lock import only_server
from support.aged import aged
from support.kept_jobs import HAPPENED, asked, compared, done, failed

JOBS = {
    "new": asked("http", fresh=True, time_limit_seconds=12.5),
    "done": done(),
    "compared": compared(),
    "failed": failed(),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_job_comes_back_exactly_as_it_was_written(store, job):
    store.add(job, HAPPENED)

    assert store.job(job.id) == store.find(job.id) == job
    assert store.events(job.id) == HAPPENED


@pytest.mark.parametrize("job", [done(), compared()], ids=["analysis", "comparison"])
def test_a_result_of_an_earlier_version_gets_its_kind_when_it_is_read(store, job):
    store.add(replace(job, result=aged(job.result, only_kind=True)))

    assert store.job(job.id) == job


def test_what_changed_about_a_job_is_written_with_what_happened(store):
    job = asked("http")
    store.add(job, HAPPENED[:1])
    running = replace(job, state="running", started_at=12.5)
    answer = done()
    ended = replace(job, state="done", started_at=12.5, finished_at=13.5, result=answer.result)

    store.save(running, HAPPENED[1:2])
    assert store.job(job.id) == running
    assert store.events(job.id) == HAPPENED[:2]

    store.save(ended, HAPPENED[2:])
    assert store.job(job.id) == ended
    assert store.events(job.id) == HAPPENED


def test_a_job_is_written_once(store):
    job = asked()
    store.add(job, HAPPENED)

    with pytest.raises(UnwritableError, match="cannot be used"):
        store.add(job)

    assert store.job(job.id) == job
    assert store.count() == 1


def test_to_write_the_same_again_changes_nothing(store):
    job = asked()
    store.add(job, HAPPENED[:1])
    running = replace(job, state="running", started_at=12.5)

    for _ in range(2):  # as after a write whose success was never heard of
        store.save(running, HAPPENED)

    assert store.job(job.id) == running
    assert store.events(job.id) == HAPPENED


def test_events_are_given_from_a_number_on(store):
    job = asked()
    store.add(job, HAPPENED)

    assert store.events(job.id, after=1) == HAPPENED[1:]
    assert store.events(job.id, after=3) == store.events("nothing") == []


def test_what_is_not_there_is_not_found(store):
    assert store.job("000000000000") is None
    assert store.answered("0" * 64) is None
    assert (store.jobs(), list(store.unfinished()), store.count()) == ([], [], 0)


def test_the_start_of_an_id_is_enough_if_it_is_the_start_of_only_one(store):
    first, second = asked(id="aaa000000000"), asked(id="aab000000000")
    store.add(first)
    store.add(second)

    assert store.find("aab") == second
    with pytest.raises(UsageError, match="several jobs begin with 'aa'; give more of the id"):
        store.find("aa")
    for nothing in ("b", "", "%", "_", "aaa0000000000", "aaa_"):
        with pytest.raises(UsageError, match="the history has no job"):
            store.find(nothing)


def test_jobs_are_listed_latest_first_with_headlines_in_place_of_results(store):
    made = [done(), failed(), compared()]
    for job in made:
        store.add(job)

    listed = store.jobs()

    assert listed == [ListedJob.of(job) for job in reversed(made)]
    assert listed[2].headline["max_batch_size"] == 266


def test_jobs_are_listed_by_model_state_number_and_age(store):
    models = ["bert", "gpt2", "google-bert/bert-base-uncased", "resnet"]
    states = ["done", "failed", "queued", "done"]
    made = [asked(model=model, state=state) for model, state in zip(models, states, strict=True)]
    for job in made:
        store.add(job)

    def listed(**which):
        ids = [job.id for job in made]
        return [ids.index(job.id) for job in store.jobs(**which)]

    assert listed(model="bert") == [2, 0]
    assert listed(state="done") == [3, 0]
    assert listed(model="bert", state="done") == [0]
    assert listed(limit=2) == [3, 2]
    assert listed(limit=2, before=made[2].id) == [1, 0]
    assert listed(before=made[0].id) == []
    with pytest.raises(UsageError, match="the history has no job '000000000000' to continue from"):
        listed(before="000000000000")


def test_the_latest_answer_to_a_question_is_found_by_its_key(store):
    first, second, other = done(), done(), done(case="gpt2_fp32")
    for job in (first, second, other, replace(failed(), key=first.key)):
        store.add(job)

    assert first.key == second.key != other.key
    assert store.answered(first.key) == second
    assert store.answered(other.key) == other


def test_what_a_server_left_unfinished_is_found_in_the_order_of_its_arrival(store):
    made = [
        asked("http"),
        asked("http", state="running", started_at=2.0),
        asked("cli", state="running"),
        asked("http", state="cancelled"),
        asked("http", created_at=1.0),
    ]
    for job in made:
        store.add(job)

    assert list(store.unfinished()) == [made[0], made[1], made[4]]


def test_two_processes_may_use_one_history(open_store):
    here, there = open_store(), open_store()
    job = asked()

    here.add(job, HAPPENED[:1])
    there.save(replace(job, state="running"), HAPPENED[1:2])

    assert here.job(job.id).state == "running"
    assert here.events(job.id) == there.events(job.id) == HAPPENED[:2]


def test_opening_a_history_again_keeps_what_is_in_it(open_store):
    job = done()
    first = open_store()
    first.add(job, HAPPENED)
    first.close()

    again = open_store()

    assert again.job(job.id) == job
    assert again.events(job.id) == HAPPENED


def test_a_sqlite_history_survives_a_power_cut_and_lets_others_read(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/history.db")

    with store.connection() as connection:
        found = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    store.close()

    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_folders_on_the_way_are_made(tmp_path):
    Store(f"sqlite:///{tmp_path}/a/b/history.db").close()

    assert (tmp_path / "a" / "b" / "history.db").is_file()


def test_where_the_history_is_can_be_said_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_DATABASE", "sqlite:///somewhere.db")
    assert default_url() == "sqlite:///somewhere.db"

    monkeypatch.delenv("MEMORYMARK_DATABASE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_url().startswith("sqlite:///")
    assert default_url().endswith("memorymark/history.db")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "'nonsense' is not a database URL"),
        ("", "is not a database URL"),
        ("sqlite://", "the history needs a file"),
        ("sqlite:///:memory:", "the history needs a file"),
        ("oracle://host/name", "there is no driver for oracle here"),
        ("bogus://host/name", "there is no driver for bogus here"),
    ],
)
def test_what_is_no_database_is_refused(url, said):
    with pytest.raises(UsageError, match=said):
        Store(url)


@pytest.mark.parametrize("kind", ["folder is a file", "file is a folder", "file is no database"])
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(tmp_path, kind):
    path = tmp_path / "history.db"
    if kind == "folder is a file":
        path.write_text("")
        path = path / "history.db"
    elif kind == "file is a folder":
        path.mkdir()
    else:
        path.write_text("this is text, and no database at all " * 100)

    with pytest.raises(HistoryError, match=r"^the history .*\.$"):
        Store(f"sqlite:///{path}")


@contextmanager
def unprivileged():
    """Root may write everywhere; so that a closed folder is closed, the tests are nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
@pytest.mark.parametrize("kind", ["folder", "new folder", "file"])
def test_what_may_not_be_written_is_told_in_a_sentence(public_folder, kind):
    closed = public_folder / "closed"
    closed.mkdir()
    if kind == "file":
        Store(f"sqlite:///{closed}/history.db").close()
        (closed / "history.db").chmod(0o444)
    closed.chmod(0o555)
    path = closed / "new" / "history.db" if kind == "new folder" else closed / "history.db"

    def write():
        store = Store(f"sqlite:///{path}")
        try:
            store.add(done())
        finally:
            store.close()

    with unprivileged(), pytest.raises(HistoryError, match=r"^the history .*\.$") as raised:
        write()
    closed.chmod(0o755)

    assert str(path.parent) in str(raised.value)


def test_a_server_that_is_not_there_is_told_in_a_sentence_without_the_password():
    pytest.importorskip("psycopg")

    with pytest.raises(HistoryError, match="the history in postgresql") as raised:
        Store("postgresql+psycopg://someone:topsecret@127.0.0.1:1/history")

    assert "topsecret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_plain_url_of_a_postgresql_server_is_enough(postgres):
    store = Store(postgres.replace("postgresql+psycopg", "postgresql"))

    assert store.count() == 0
    store.close()


def test_only_one_server_at_a_time_works_on_a_history(open_store):
    first, second = open_store(), open_store()

    with (
        only_server(first),
        pytest.raises(UsageError, match="another server already uses this history"),
        only_server(second),
    ):
        pass
    with only_server(second):
        pass


def test_a_server_that_died_does_not_keep_its_history(url, open_store):
    code = (
        "import sys; from memorymark.history import Store; from memorymark.server.lock import only_server\n"
        "with only_server(Store(sys.argv[1])): print('mine', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline() == "mine\n"
            with pytest.raises(UsageError, match="another server"), only_server(open_store()):
                pass
        finally:
            other.kill()
            other.wait()

    with only_server(open_store()):
        pass
