"""What goes wrong around a server: its disk fills, it is killed, another one is started. Nothing is lost or left."""

import http.client
import random
import signal
import sqlite3
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.calls import is_error
from support.disks import filled, small_disk
from support.faults import (
    LONG,
    Watcher,
    assert_sentence,
    assert_well,
    quick,
    server_on,
    server_starting_on,
    workers,
)
from support.processes import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


def assert_refused_for_now(service):
    refused = service.post("/jobs", quick())
    assert is_error(refused, 503)
    assert_sentence(refused.json["error"])
    assert int(refused.headers["Retry-After"]) > 0


@pytest.fixture(scope="module")
def disk():
    """A small disk with a server's history on it."""
    with small_disk() as folder:
        yield folder


@pytest.fixture(scope="module")
def server(disk):
    """The server on the small disk; ``restart`` puts another in its place."""
    with ExitStack() as servers:
        place = Restartable(disk / "history.db", servers)
        yield place


class Restartable:
    def __init__(self, database, servers):
        self._database, self._servers = database, servers
        self.now = servers.enter_context(server_on(database, "--quiet"))

    def restart(self):
        assert self.now.end() == 0
        assert workers(self.now.mark) == set()
        self.now = self._servers.enter_context(server_on(self._database, "--quiet"))
        return self.now


def test_a_full_disk_is_told_by_the_health_of_an_idle_server_too(server, disk):
    with filled(disk):
        assert_refused_for_now(server.now)
        health = server.now.health()
        assert (health["status"], "disk" in (health["problem"] or "")) == ("degraded", True)

    wait_until(lambda: server.now.health()["status"] == "healthy")
    assert_well(server.now)


def test_a_job_that_ends_on_a_full_disk_is_written_when_there_is_room(server, disk):
    before = server.now.finished(server.now.submit(quick()))
    job_id = server.now.submit(LONG)
    watcher = Watcher(server.now.port, job_id)
    watcher.wait_for("stage")
    with filled(disk):
        assert_refused_for_now(server.now)
        job = server.now.finished(job_id)
        assert job["state"] == "done"
        assert watcher.ended()["data"] == job["result"]
        health = server.now.health()
        assert health["status"] == "degraded"
        assert "history" in health["problem"]
        assert_refused_for_now(server.now)
        assert server.now.job(before["id"]) == before
    wait_until(lambda: server.now.health()["status"] == "healthy")
    assert_well(server.now)

    after = server.restart()

    assert after.job(job_id) == job
    assert after.job(before["id"]) == before
    assert after.events(job_id) == watcher.events
    assert_well(after)


def test_a_server_stopped_as_soon_as_there_is_room_has_written_everything(server, disk):
    job_id = server.now.submit(LONG, batch_size=8)
    watcher = Watcher(server.now.port, job_id)
    watcher.wait_for("stage")
    with filled(disk):
        job = server.now.finished(job_id)
        assert server.now.health()["status"] == "degraded"

    after = server.restart()

    assert after.job(job_id) == job
    assert after.events(job_id) == watcher.events
    assert_well(after)


# The server


def test_a_server_that_is_killed_leaves_no_worker_and_the_next_goes_on(tmp_path):
    database = tmp_path / "history.db"
    with server_on(database, "--quiet") as server:
        done = server.finished(server.submit(quick()))
        running_id = server.submit(LONG)
        watcher = Watcher(server.port, running_id)
        watcher.wait_for("stage")
        waiting = [server.submit(quick()) for _ in range(3)]
        assert [server.job(job_id)["position"] for job_id in waiting] == [1, 2, 3]
        assert len(workers(server.mark)) == 1

        server.kill()

        watcher.join(PATIENCE_SECONDS)
        wait_until(lambda: workers(server.mark) == set())

    with server_on(database, "--quiet") as server:
        rest = Watcher(server.port, running_id, after=len(watcher.events))
        assert server.job(done["id"]) == done
        interrupted = server.job(running_id)
        assert (interrupted["state"], interrupted["error_kind"]) == ("interrupted", "stopped")
        assert_sentence(interrupted["error"])
        assert rest.ended()["data"]["state"] == "interrupted"
        assert server.events(running_id) == watcher.events + rest.events
        for job_id in waiting:
            resumed = Watcher(server.port, job_id)
            assert server.finished(job_id)["state"] == "done"
            assert resumed.ended()["event"] == "result"
        assert_well(server)


def test_a_second_server_on_the_same_history_is_refused_until_the_first_is_gone(tmp_path):
    database = tmp_path / "history.db"
    with server_on(database, "--quiet") as first:
        with server_starting_on(database) as second:
            said, _ = second.process.communicate(timeout=PATIENCE_SECONDS)
            complaint = second.log

        assert (second.process.returncode, said) == (2, "")
        assert complaint[-1].endswith(
            "another server already uses this history; stop it, or give this one its own with --database."
        )
        assert not any("Traceback" in line for line in complaint)
        assert_well(first)

        first.kill()

        with server_on(database, "--quiet") as third:
            assert_well(third)
        wait_until(lambda: workers(first.mark) == set())


ROUNDS, MOST_UNFINISHED = 3, 5


def ask_until_gone(server, moments):
    """The jobs that a server acknowledged and those that it showed as done, until it is killed at some moment."""
    acknowledged, done, killer = [], {}, threading.Timer(moments.uniform(0.0, 1.5), server.process.kill)
    try:
        while True:
            if len(acknowledged) < len(done) + MOST_UNFINISHED:
                acknowledged.append(server.submit(quick()))
            for job_id in set(acknowledged) - set(done):
                job = server.job(job_id)
                if job["state"] == "done":
                    done[job_id] = job
            if done and killer.ident is None:
                killer.start()
            time.sleep(0.05)
    except (OSError, http.client.HTTPException):
        if killer.ident is None:  # it died by itself
            raise
        killer.join()
    return acknowledged, done


def test_no_job_is_lost_however_often_the_server_is_killed(tmp_path):
    moments = random.Random(5001)
    acknowledged, seen_done = [], {}
    for _ in range(ROUNDS):
        with server_on(tmp_path / "history.db", "--quiet") as server:
            more, done = ask_until_gone(server, moments)
        assert server.process.returncode == -signal.SIGKILL
        acknowledged += more
        seen_done |= done

    assert len(seen_done) >= ROUNDS
    with server_on(tmp_path / "history.db", "--quiet") as server:
        states = [server.finished(job_id)["state"] for job_id in acknowledged]
        assert set(states) <= {"done", "interrupted"}
        assert states.count("interrupted") <= ROUNDS
        for job in seen_done.values():
            assert server.job(job["id"]) == job
        for job_id in acknowledged:
            events = server.events(job_id)
            assert [event["id"] for event in events] == list(range(1, len(events) + 1))
            assert [event["event"] for event in events].count("result") == (server.job(job_id)["state"] == "done")
        assert_well(server)
        assert server.end() == 0
    with closing(sqlite3.connect(tmp_path / "history.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
