"""A history that fails, as the line of jobs sees it: one job's fault is its own, and all is made good afterwards."""

import sqlite3
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from memorymark.errors import HistoryError
from memorymark.history import JobEvent, Store, new_job
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server.app import create_app
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from support.calls import QUICK
from support.disks import filled, read_only, small_disk
from support.processes import wait_until

QUESTION = Question(request=Request(model="bert", target=Target(gpu="a10")))


@contextmanager
def lines_on(file):
    """Makes lines of jobs on a history, as servers that follow one another; they have no worker to start."""
    made = []

    def make():
        store = Store(f"sqlite:///{file}")
        made.append(Jobs(store, [Lane("cpu", WarmWorkers(reuse=False), "cpu")], queue_size=9, max_seconds=60.0))
        return made[-1]

    try:
        yield make
    finally:
        for jobs in made:
            jobs.stop()
            jobs.store.close()


@pytest.fixture
def lines(tmp_path):
    with lines_on(tmp_path / "history.db") as make:
        yield make


def started(jobs):
    """The next job, as a lane that has begun with it has it."""
    live = jobs.take(jobs.lanes[0])
    live.tell("state", {"state": "running"}, state="running", started_at=1.0)
    return live


def ask(jobs, seq_len=8):
    request = Request(model="bert", seq_len=seq_len, target=Target(device="cpu"))
    return jobs.submit(Question(request=request)).job.id


# One job's fault


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        ({}, {"state": "done", "result": {"info": {"optimizer": object()}}}),
        ({"trial": object()}, {}),
        ({}, {"error": "\ud800", "state": "failed", "result": {"speedup": {1, 2}}}),
    ],
    ids=["result", "event", "text"],
)
def test_what_cannot_be_written_fails_its_job_and_no_other(lines, data, changes):
    jobs = lines()
    bad, good = ask(jobs), ask(jobs, seq_len=16)
    live = started(jobs)

    live.tell("trial", data, **changes)
    live.tell("result", {}, state="done", result={})  # nothing happens after the end
    jobs.lanes[0].running = None
    jobs.finish(live)

    assert (live.job.state, live.job.error_kind, live.job.result) == ("failed", "internal", None)
    assert (jobs.problem, live.lease.stopped is not None) == (None, True)
    assert jobs.store.job(bad) == live.job
    assert [event.event for event in jobs.events(live.job)] == ["state", "state", "error"]
    other = started(jobs)
    other.tell("result", {}, state="done", result={}, finished_at=2.0)
    assert jobs.store.job(good).state == "done"


def test_a_write_whose_success_was_not_heard_of_is_written_again(lines):
    jobs = lines()
    job_id = ask(jobs)
    live = started(jobs)
    happened = JobEvent(3, "stage", {"stage": "start", "message": "before"}, 1.0)
    jobs.store.save(live.job, [happened])  # as a commit does that the database did, and then hung up

    live.tell("stage", {"stage": "start", "message": "before"})
    live.tell("result", {}, state="done", result={}, finished_at=2.0)

    assert (jobs.problem, live.is_saved, jobs.store.job(job_id).state) == (None, True, "done")
    assert [event.number for event in jobs.store.events(job_id)] == [1, 2, 3, 4]


def test_a_new_job_whose_writing_was_not_heard_of_is_gone_on_with(lines, monkeypatch):
    jobs = lines()
    jobs.start()
    add = jobs.store.add

    def add_and_hang_up(*args):
        add(*args)
        raise HistoryError("the database hung up.")

    with monkeypatch.context() as patched, pytest.raises(HistoryError):
        patched.setattr(jobs.store, "add", add_and_hang_up)
        jobs.submit(QUESTION)
    [left] = jobs.store.jobs()

    # There is no lane for it, so that it ends at once.
    wait_until(lambda: jobs.store.job(left.id).state == "failed", 10)


def test_an_end_that_comes_right_after_a_late_write_is_not_lost(lines, monkeypatch):
    jobs = lines()
    job_id = ask(jobs)
    live = jobs.take(jobs.lanes[0])

    def refuse(*_):
        raise HistoryError("the disk is full.")

    def end_unwritten():
        with monkeypatch.context() as full:
            full.setattr(jobs.store, "save", refuse)
            live.tell("result", {}, state="done", result={}, finished_at=2.0)

    with monkeypatch.context() as full:
        full.setattr(jobs.store, "save", refuse)
        live.tell("state", {"state": "running"}, state="running", started_at=1.0)
    save = live.save
    with monkeypatch.context() as ending:
        ending.setattr(live, "save", lambda: (save(), end_unwritten())[0])
        jobs.save_what_could_not_be()
    jobs.finish(live)
    jobs.save_what_could_not_be()

    assert (jobs.store.job(job_id).state, jobs.live(job_id), jobs.problem) == ("done", None, None)


# Others who write


def test_while_somebody_else_writes_for_long_only_who_must_write_waits(lines, tmp_path):
    jobs = lines()
    client = create_app(jobs, Settings()).test_client()
    waiting = ask(jobs, seq_len=64)
    with closing(sqlite3.connect(tmp_path / "history.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answers = []
        asking = threading.Thread(target=lambda: answers.append(client.post("/jobs", json=QUICK)))
        asking.start()
        teller = threading.Thread(target=jobs.live(waiting).tell, args=["stage", {"stage": "start"}])
        teller.start()

        reader = create_app(jobs, Settings()).test_client()
        seen = [reader.get(path) for path in ("/health", "/jobs", f"/jobs/{waiting}")]
        seen.append(reader.get(f"/jobs/{waiting}/events", headers={"Accept": "application/json"}))

        assert [answer.status_code for answer in seen] == [200] * 4
        assert seen[2].json["job"]["position"] == 1
        assert (asking.is_alive(), teller.is_alive()) == (True, True)  # none of it took as long as a write waits
        asking.join()
        teller.join()
    assert answers[0].status_code == 503
    assert jobs.status()["queue"]["waiting"] == 1
    jobs.live(waiting).save()
    assert jobs.live(waiting).is_saved
    assert client.post("/jobs", json=QUICK).status_code == 202


# What an earlier server left


@pytest.mark.parametrize("kind", [filled, read_only])
def test_a_job_that_ran_is_put_in_order_as_soon_as_the_disk_takes_something(kind):
    with small_disk() as disk, lines_on(disk / "history.db") as make:
        left = [replace(new_job(QUESTION, "http"), state=state) for state in ("running", "done")]
        with closing(Store(f"sqlite:///{disk / 'history.db'}")) as store:
            for job in left:
                store.add(job, [JobEvent(1, "state", {"state": "queued"}, 1.0)])
        with kind(disk):
            jobs = make()
            jobs.start()
            client = create_app(jobs, Settings()).test_client()

            states = [client.get(f"/jobs/{job.id}").json["job"]["state"] for job in left]
            assert states == ["interrupted", "done"]
            assert [job["state"] for job in client.get("/jobs").json["jobs"]] == ["done", "interrupted"]
            assert client.get("/health").json["status"] == "degraded"
            assert client.post("/jobs", json=QUICK).status_code == 503

        wait_until(lambda: jobs.store.job(left[0].id).state == "interrupted")
        wait_until(lambda: jobs.problem is None)
        assert [event.event for event in jobs.store.events(left[0].id)] == ["state", "error"]


def test_what_an_earlier_server_left_is_put_in_order_when_it_can_be_read_again(lines, tmp_path):
    file, job = tmp_path / "history.db", replace(new_job(QUESTION, "http"), state="running")
    jobs = lines()
    jobs.store.add(job)
    file.rename(tmp_path / "elsewhere.db")

    jobs.start()
    assert "gone" in jobs.problem

    (tmp_path / "elsewhere.db").rename(file)
    wait_until(lambda: jobs.store.job(job.id).state == "interrupted")
    wait_until(lambda: jobs.problem is None)


NEWER = {
    "field": lambda asked: {**asked, "budget_usd": 5},
    "recipe": lambda asked: {**asked, "request": {**asked["request"], "recipe": {"precision": "fp4", "rank": 2}}},
    "kind": lambda asked: {"kind": "plan", "plan": {"models": ["bert"]}},
    "nothing": lambda asked: None,
    "model": lambda asked: {**asked, "request": {**asked["request"], "model": "bert-9000"}},
}


@pytest.mark.parametrize("newer", NEWER.values(), ids=NEWER)
def test_a_job_that_cannot_be_read_fails_alone(lines, newer):
    jobs = lines()
    job = new_job(QUESTION, "http")
    readable = new_job(replace(QUESTION, request=Request(model="bert", target=Target(device="cpu"))), "http")
    jobs.store.add(replace(job, asked=newer(job.asked)))
    jobs.store.add(readable)

    jobs.take_over()

    client = create_app(jobs, Settings()).test_client()
    failed, waiting = (client.get(f"/jobs/{one.id}").json["job"] for one in (job, readable))
    assert (failed["state"], failed["error_kind"] in ("usage", "internal")) == ("failed", True)
    assert failed["error"].endswith((".", "?"))
    assert "Error" not in failed["error"]
    assert (waiting["state"], waiting["position"]) == ("queued", 1)
    assert [one["id"] for one in client.get("/jobs").json["jobs"]] == [readable.id, job.id]


def test_a_job_that_waits_keeps_no_config_in_memory_and_has_it_all_the_same(lines):
    config = {"model_type": "bert", "hidden_size": 64, "labels": [f"label {number}" for number in range(50)]}
    first = lines()
    asked = {"config": config, "device": "cpu", "batch_size": 2}
    job_id = create_app(first, Settings()).test_client().post("/jobs", json=asked).json["job"]["id"]
    following = lines()
    following.take_over()

    for jobs in (first, following):
        client, live = create_app(jobs, Settings()).test_client(), jobs.live(job_id)
        assert "label 7" not in str(vars(live))
        assert client.get(f"/jobs/{job_id}").json["job"]["question"]["request"]["config"] == config
        assert client.get("/jobs").json["jobs"][0]["model_name"] == "bert config"
        assert live.whole.question.request.config == config
    assert client.delete(f"/jobs/{job_id}").json["job"]["question"]["request"]["config"] == config


# What is wrong


def test_health_tells_of_a_damaged_history_and_of_its_repair(lines, tmp_path):
    file, jobs = tmp_path / "history.db", lines()
    jobs.store.add(replace(new_job(QUESTION, "http"), state="done"))
    jobs.start()
    client = create_app(jobs, Settings()).test_client()
    assert client.get("/health").json["problem"] is None
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = file.read_bytes()

    file.write_bytes(sound[:4096] + b"\xa5" * (len(sound) - 4096))
    wait_until(lambda: client.get("/health").json["status"] == "degraded")
    assert "damaged" in client.get("/health").json["problem"]
    assert "memorymark_healthy 0.0" in client.get("/metrics").text

    file.write_bytes(sound)
    wait_until(lambda: client.get("/health").json["problem"] is None)
    assert "memorymark_healthy 1.0" in client.get("/metrics").text
