"""What goes wrong around the database: others who write, disks that are full or read-only, damage."""

import sqlite3
import threading
import tracemalloc
from contextlib import closing

import pytest
from sqlalchemy import text

from memorymark.errors import HistoryError, UnwritableError, UsageError
from memorymark.history import Store, database
from memorymark.server.lock import only_server
from memorymark.units import MIB
from support.disks import filled, read_only, small_disk
from support.kept_jobs import HAPPENED, asked, done


@pytest.fixture
def file(tmp_path):
    return tmp_path / "history.db"


@pytest.fixture
def kept(file):
    """A history in a file, with a job in it."""
    with closing(Store(f"sqlite:///{file}")) as store:
        store.job_kept = asked()
        store.add(store.job_kept, HAPPENED)
        yield store


# Others who write


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_reading_does_not_wait_for_whoever_writes(kept, file, monkeypatch, lock):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    job = kept.job_kept
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute(f"BEGIN {lock}")
        writers = [threading.Thread(target=try_to_write, args=[kept]) for _ in range(50)]  # more than connections
        for writer in writers:
            writer.start()

        assert (kept.job(job.id), kept.events(job.id)) == (job, HAPPENED)
        assert ([one.id for one in kept.jobs()], kept.answered(job.key), kept.count()) == ([job.id], None, 1)
        for writer in writers:
            writer.join()


def try_to_write(store):
    with pytest.raises(HistoryError, match="cannot be used"):
        store.add(asked())


def test_a_write_waits_for_another_for_a_while(kept, file):
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=kept.add, args=[asked()])
        writer.start()
        writer.join(0.2)
        other.execute("ROLLBACK")
        writer.join()

    assert kept.count() == 2


# One record


@pytest.mark.parametrize("said", ["layer \ud800 is no layer.", "a zero \0 in it."], ids=["surrogate", "zero"])
def test_text_that_no_database_takes_is_written_as_far_as_it_can_be(store, said):
    job = asked(state="failed", error=said, error_kind="worker")

    store.add(job)

    assert store.job(job.id).error == said.replace("\ud800", "?").replace("\0", "?")


def test_a_record_that_cannot_be_written_is_told_from_a_database_that_cannot(store):
    with pytest.raises(UnwritableError, match=r"\.$"):
        store.add(asked(state="done", result={"info": {"optimizer": object()}}))

    store.add(asked())
    assert store.count() == 1


def test_a_damaged_document_costs_no_other_job(kept, file):
    damaged = done()
    kept.add(damaged)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE jobs SET headline = '{', result = 'x', question = '[' WHERE id = ?", [damaged.id])
        connection.commit()

    assert [job.id for job in kept.jobs()] == [damaged.id, kept.job_kept.id]
    read = kept.job(damaged.id)
    assert (read.state, read.result, read.target_name) == ("done", None, "auto")
    assert kept.answered(damaged.key) is None
    with pytest.raises(HistoryError, match=r"another version .* ask again\.$"):
        _ = read.question


# The file


def spoil(file):
    """Overwrites all but the first page."""
    with file.open("r+b") as opened:
        size = opened.seek(0, 2)
        opened.seek(4096)
        opened.write(b"\xa5" * (size - 4096))


def test_damage_is_found_and_its_repair_too(kept, file):
    assert kept.damage() is None
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = file.read_bytes()

    spoil(file)
    assert "damaged" in kept.damage()
    assert "damaged" in kept.damage()

    file.write_bytes(sound)
    assert kept.damage() is None
    assert kept.count() == 1


def test_a_file_that_is_gone_is_noticed_and_not_made_again(kept, file):
    elsewhere = file.with_name("elsewhere.db")
    file.rename(elsewhere)

    with pytest.raises(HistoryError, match="gone"):
        kept.require_room()
    for use in (kept.count, lambda: kept.add(asked())):
        with pytest.raises(HistoryError, match="cannot be used"):
            use()
    assert not file.exists()

    elsewhere.rename(file)
    kept.require_room()
    kept.add(asked())
    assert kept.count() == 2


@pytest.mark.parametrize("kind", [filled, read_only])
@pytest.mark.parametrize("is_shut", [True, False], ids=["shut down well", "killed"])
def test_a_history_on_a_disk_that_takes_nothing_can_be_opened_and_read(kind, is_shut):
    with small_disk() as disk:
        file, job = disk / "history.db", asked()
        first = Store(f"sqlite:///{file}")
        first.add(job, HAPPENED)
        if not is_shut:  # its side files stay as they are after a kill
            copies = {name: (disk / name).read_bytes() for name in ("history.db", "history.db-wal", "history.db-shm")}
        first.close()
        if not is_shut:
            for name, content in copies.items():
                (disk / name).write_bytes(content)
        with kind(disk), closing(Store(f"sqlite:///{file}")) as store, only_server(store):
            assert (store.job(job.id), store.events(job.id), store.count()) == (job, HAPPENED, 1)
            with pytest.raises(HistoryError):
                store.require_room()
            with pytest.raises(HistoryError):
                store.add(asked())
            kept = store

        kept.require_room()
        kept.add(asked())
        assert kept.count() == 2
        kept.close()


def test_a_link_to_the_history_is_the_same_history(kept, file):
    link = file.with_name("link.db")
    link.symlink_to(file)

    with (
        closing(Store(f"sqlite:///{link}")) as same,
        only_server(kept),
        pytest.raises(UsageError, match="another server already uses this history"),
        only_server(same),
    ):
        pass


def test_a_history_with_two_names_is_refused_to_servers(kept, file):
    file.with_name("second.db").hardlink_to(file)

    with pytest.raises(UsageError, match=r"has another name .*\.$"), only_server(kept):
        pass


# What is kept once


def test_a_config_is_kept_once_however_often_it_is_asked_about(store):
    jobs = [pasted(state=state, result=result) for state, result in (("queued", None), *[("done", RESULT)] * 2)]
    for job in jobs:
        store.add(job, HAPPENED)

    assert [store.job(job.id) for job in jobs] == jobs
    with store.connection() as connection:
        rows = connection.execute(text("SELECT CAST(question AS TEXT), CAST(result AS TEXT) FROM jobs")).all()
        configs = connection.execute(text("SELECT CAST(config AS TEXT) FROM configs")).all()
    assert "architecture" not in str(rows)
    assert (len(configs), "architecture" in str(configs)) == (1, True)


def test_a_list_reads_no_questions_and_no_results(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        for number in range(10):
            large = {"model_type": "bert", "layers": [f"layer {number} {layer}" for layer in range(20_000)]}
            store.add(pasted(large, state="done", result={"request": {}, "trials": large["layers"]}))
        tracemalloc.start()
        try:
            listed = store.jobs()
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert len(listed) == 10
    assert peak_bytes < MIB  # one of the documents takes more


CONFIG = {"model_type": "bert", "architecture": ["x"] * 10}
PART = {"kind": "analysis", "request": {"model": "m", "config": CONFIG}}
RESULT = {"kind": "comparison", "request": {"config": CONFIG}, "analyses": {"a10": PART}}


def pasted(config=CONFIG, **changes):
    job = asked()
    request = {**job.asked["request"], "config": config}
    return asked(asked={**job.asked, "request": request}, **changes)
