"""What goes wrong in the field, done to a real service: afterwards it answers, and nothing is lost or left behind."""

import os
import resource
import signal
import socket
import sqlite3
import threading
import uuid
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from memorymark.units import MIB
from support.faults import (
    LONG,
    MARK_VARIABLE,
    SHORT,
    SLOW,
    Breakable,
    Watcher,
    assert_sentence,
    assert_well,
    end_workers,
    quick,
    workers,
)
from support.forked_workers import fresh_workers, is_fresh
from support.processes import PATIENCE_SECONDS, is_running, wait_until
from support.service import quick_service

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")

MAX_WATCHERS = 8


@pytest.fixture(scope="module")
def breakable(tmp_path_factory):
    """A service of these tests' own in this process, which they break one after the other."""
    mark, threads = uuid.uuid4().hex, set(threading.enumerate())
    database = tmp_path_factory.mktemp("history") / "history.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK_VARIABLE, mark)
        try:
            with quick_service(database, max_watchers=MAX_WATCHERS) as started:
                yield Breakable(started.port, mark, database)
            assert workers(mark) == set()
            wait_until(lambda: set(threading.enumerate()) <= threads)
        finally:
            end_workers(mark)


# The worker, a process of its own from the start


@pytest.fixture
def fresh_cpu_worker(breakable):
    """The process id of a new worker that waits in the CPU lane: one that was forked is used up first."""
    with fresh_workers():
        breakable.finished(breakable.submit(SHORT, seq_len=16, fresh=True))
        pid = breakable.warm_pid("cpu")
    assert is_fresh(pid)
    return pid


@pytest.fixture
def fresh_prediction_worker(breakable):
    """The process id of a new worker that waits in the lane for predictions, in place of one that was forked."""
    with fresh_workers():
        os.kill(breakable.warm_pid("prediction-0"), signal.SIGKILL)
        breakable.finished(breakable.submit(quick()))
        pid = breakable.warm_pid("prediction-0")
    assert is_fresh(pid)
    return pid


def test_a_worker_killed_in_a_trial_fails_its_job_and_no_other(breakable, fresh_cpu_worker):
    job_id = breakable.submit(SLOW)
    watcher = Watcher(breakable.port, job_id)
    watcher.wait_for("trial")
    pid = breakable.busy_pid(job_id)
    assert pid == fresh_cpu_worker

    os.kill(pid, signal.SIGKILL)

    job = breakable.finished(job_id)
    assert (job["state"], job["error_kind"]) == ("failed", "worker")
    assert job["error"].startswith("the worker was killed (signal 9)")
    assert_sentence(job["error"])
    assert watcher.ended()["data"]["error_kind"] == "worker"
    assert not is_running(pid)
    assert_well(breakable)


@contextmanager
def memory_group(pid, limit_bytes):
    """Has the kernel kill a process once it has taken so much more memory."""
    first = Path("/sys/fs/cgroup/memory")
    parent, name = (first, "memory.limit_in_bytes") if first.exists() else (Path("/sys/fs/cgroup"), "memory.max")
    group = parent / f"memorymark-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory limits can be set here: {error}")
    try:
        (group / name).write_text(str(limit_bytes))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no memory limits can be set here: {error}")
    try:
        yield
    finally:
        wait_until(lambda: (group / "cgroup.procs").read_text() == "")
        group.rmdir()


def test_a_worker_that_the_kernel_kills_for_memory_fails_its_job_with_that_reason(breakable, fresh_cpu_worker):
    with memory_group(fresh_cpu_worker, 128 * MIB):
        job_id = breakable.submit(SLOW)
        watcher = Watcher(breakable.port, job_id)
        job = breakable.finished(job_id)

    assert (job["state"], job["error_kind"]) == ("failed", "worker")
    assert "the host ran out of memory; free some, or lower max_batch." in job["error"]
    assert_sentence(job["error"])
    assert watcher.ended()["event"] == "error"
    assert not is_running(fresh_cpu_worker)
    assert_well(breakable)


def limit_address_space(pid, room_bytes):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + room_bytes
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


def test_where_allocations_fail_in_the_worker_those_batches_do_not_fit(breakable, fresh_cpu_worker):
    limit_address_space(fresh_cpu_worker, 128 * MIB)

    job_id = breakable.submit(SLOW)
    watcher = Watcher(breakable.port, job_id)
    trial = wait_until(lambda: next((trial for trial in watcher.trials() if not trial["fits"]), None))
    breakable.cancel(job_id)

    assert trial["failure"]["kind"] == "memory"
    assert watcher.ended()["event"] == "error"
    assert not is_running(fresh_cpu_worker)
    assert_well(breakable)


def test_a_worker_that_gets_no_memory_at_all_ends_its_job_with_a_sentence(breakable, fresh_cpu_worker):
    limit_address_space(fresh_cpu_worker, 0)

    job_id = breakable.submit(SLOW)
    watcher = Watcher(breakable.port, job_id)
    job = breakable.finished(job_id)

    assert (job["state"], job["error_kind"]) == ("failed", "usage")
    assert job["error"].startswith("this needs more memory than a worker of the service may use")
    assert "\n" not in job["error"]
    assert watcher.ended()["event"] == "error"
    assert_well(breakable)


def test_a_worker_that_hangs_is_ended_by_the_time_limit(breakable, fresh_prediction_worker):
    job_id = breakable.submit(LONG, time_limit=3)
    watcher = Watcher(breakable.port, job_id)
    pid = breakable.busy_pid(job_id)
    assert pid == fresh_prediction_worker

    os.kill(pid, signal.SIGSTOP)

    job = breakable.finished(job_id)
    assert (job["state"], job["error_kind"]) == ("failed", "time_limit")
    assert job["error"].startswith("it took longer than its limit of 3 s; ask with a longer time_limit")
    assert_sentence(job["error"])
    assert watcher.ended()["data"]["error_kind"] == "time_limit"
    assert not is_running(pid)
    assert_well(breakable)


def test_a_worker_that_dies_while_it_waits_costs_no_job(breakable, fresh_prediction_worker):
    os.kill(fresh_prediction_worker, signal.SIGKILL)
    os.waitid(os.P_PID, fresh_prediction_worker, os.WEXITED | os.WNOWAIT)

    job = breakable.finished(breakable.submit(quick()))

    assert job["state"] == "done"
    assert breakable.warm_pid("prediction-0") != fresh_prediction_worker
    assert_well(breakable)


def test_a_cancelled_job_gives_its_worker_up_and_the_lane_takes_the_next(breakable):
    job_id, next_id = breakable.submit(SLOW), breakable.submit(SHORT, seq_len=9)
    watcher, next_watcher = Watcher(breakable.port, job_id), Watcher(breakable.port, next_id)
    watcher.wait_for("trial")
    pid = breakable.busy_pid(job_id)
    assert breakable.job(next_id)["position"] == 1

    cancelled = breakable.cancel(job_id)

    assert (cancelled["state"], cancelled["error_kind"]) == ("cancelled", None)
    assert not is_running(pid)
    assert watcher.ended()["data"]["state"] == "cancelled"
    assert breakable.finished(next_id)["state"] == "done"
    assert next_watcher.ended()["event"] == "result"
    assert_well(breakable)


# Watchers


def open_stream(port, job_id):
    """A socket on which a stream has begun."""
    watching = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    watching.sendall(f"GET /jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    said = b""
    while b"event: state" not in said:
        said += watching.recv(4096)
    return watching


def test_watchers_that_go_away_without_a_word_make_room_for_others(breakable):
    job_id = breakable.submit(SLOW)
    patient = Watcher(breakable.port, job_id)
    patient.wait_for("state")
    for _ in range(3):
        with ExitStack() as streams:
            for _ in range(MAX_WATCHERS - 1):
                streams.enter_context(open_stream(breakable.port, job_id))
            assert breakable.watchers() == MAX_WATCHERS
            assert breakable.get(f"/jobs/{job_id}/events", Accept="text/event-stream").status == 429
        wait_until(lambda: breakable.watchers() == 1)

    breakable.cancel(job_id)

    assert patient.ended()["data"]["state"] == "cancelled"
    assert_well(breakable)


def test_a_stream_tells_a_failure_in_the_words_of_the_job(breakable):
    job_id = breakable.submit(quick(), memory_gib=0.001)
    watcher = Watcher(breakable.port, job_id)
    job = breakable.finished(job_id)

    assert (job["state"], job["error_kind"]) == ("failed", "does_not_fit")
    why = {name: job[name] for name in ("state", "error", "error_kind", "suggestions", "problem")}
    assert watcher.ended()["data"] == why


# A worker that is not ready yet


@contextmanager
def starting_worker(breakable):
    """The process id of a worker of the CPU lane that is not ready yet."""
    if breakable.lane("cpu")["pid"] is None:  # it has no worker before its first job
        breakable.finished(breakable.submit(SHORT, seq_len=16, fresh=True))
    breakable.warm_pid("cpu")
    job_id = breakable.submit(SLOW)
    others = {breakable.busy_pid(job_id), breakable.warm_pid("prediction-0")}
    with fresh_workers():  # which take seconds to start
        breakable.cancel(job_id)  # which ends its worker, so that the lane gets itself another
        pid = wait_until(lambda: next(iter(workers(breakable.mark) - others), None))
    assert breakable.lane("cpu")["state"] == "starting"
    try:
        yield pid
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_worker_that_hangs_while_it_starts_is_no_excuse_for_the_time_limit(breakable):
    with starting_worker(breakable) as pid:
        os.kill(pid, signal.SIGSTOP)
        job_id = breakable.submit(SHORT, time_limit=2, fresh=True)

        job = breakable.finished(job_id, seconds=20)

    assert (job["state"], job["error_kind"]) == ("failed", "time_limit")
    assert_well(breakable)


def test_a_job_whose_worker_hangs_while_it_starts_can_be_cancelled(breakable):
    with starting_worker(breakable) as pid:
        os.kill(pid, signal.SIGSTOP)
        job_id = breakable.submit(SHORT)
        wait_until(lambda: breakable.job(job_id)["state"] == "running")

        job = breakable.cancel(job_id)

    assert job["state"] == "cancelled"
    assert_well(breakable)


def test_a_worker_that_dies_while_it_starts_costs_no_later_job(breakable):
    with starting_worker(breakable) as pid:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: breakable.lane("cpu")["state"] != "starting")

    job = breakable.finished(breakable.submit(SHORT))

    assert (job["state"], job["error"]) == ("done", None)
    assert_well(breakable)


# The history


def test_a_job_deleted_from_the_database_while_it_runs_does_not_stop_the_lane(breakable):
    job_id = breakable.submit(LONG)
    Watcher(breakable.port, job_id).wait_for("stage")
    with closing(sqlite3.connect(breakable.database, timeout=PATIENCE_SECONDS)) as connection:
        connection.execute("DELETE FROM events WHERE job_id = ?", [job_id])
        connection.execute("DELETE FROM jobs WHERE id = ?", [job_id])
        connection.commit()

    assert breakable.finished(breakable.submit(quick()))["state"] == "done"
    assert_well(breakable)
