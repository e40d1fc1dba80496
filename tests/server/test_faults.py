"""What goes wrong in the field, done to a real service: afterwards it answers, and nothing is lost or left behind."""

import os
import resource
import signal
import socket
import sqlite3
import threading
import time
import uuid
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import memorymark as mm
from memorymark.errors import StoppedError
from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.server import warm_workers
from memorymark.server.live_job import LiveJob
from memorymark.server.warm_workers import WarmWorkers
from memorymark.units import MIB
from memorymark.worker.supervisor import WorkerProcess
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


# The worker


def test_a_worker_killed_in_a_trial_fails_its_job_and_no_other(breakable):
    job_id = breakable.submit(SLOW)
    watcher = Watcher(breakable.port, job_id)
    watcher.wait_for("trial")
    pid = breakable.busy_pid(job_id)

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


def test_a_worker_that_the_kernel_kills_for_memory_fails_its_job_with_that_reason(breakable):
    pid = breakable.warm_pid("cpu")

    with memory_group(pid, 128 * MIB):
        job_id = breakable.submit(SLOW)
        watcher = Watcher(breakable.port, job_id)
        job = breakable.finished(job_id)

    assert (job["state"], job["error_kind"]) == ("failed", "worker")
    assert "the host ran out of memory; free some, or lower max_batch." in job["error"]
    assert_sentence(job["error"])
    assert watcher.ended()["event"] == "error"
    assert not is_running(pid)
    assert_well(breakable)


def limit_address_space(pid, room_bytes):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + room_bytes
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


def test_where_allocations_fail_in_the_worker_those_batches_do_not_fit(breakable):
    pid = breakable.warm_pid("cpu")
    limit_address_space(pid, 128 * MIB)

    job_id = breakable.submit(SLOW)
    watcher = Watcher(breakable.port, job_id)
    trial = wait_until(lambda: next((trial for trial in watcher.trials() if not trial["fits"]), None))
    breakable.cancel(job_id)

    assert trial["failure"]["kind"] == "memory"
    assert watcher.ended()["event"] == "error"
    assert not is_running(pid)
    assert_well(breakable)


def test_a_worker_that_gets_no_memory_at_all_ends_its_job_with_a_sentence(breakable):
    pid = breakable.warm_pid("cpu")
    limit_address_space(pid, 0)

    job_id = breakable.submit(SLOW)
    watcher = Watcher(breakable.port, job_id)
    job = breakable.finished(job_id)

    assert (job["state"], job["error_kind"]) == ("failed", "usage")
    assert job["error"].startswith("this needs more memory than a worker of the service may use")
    assert "\n" not in job["error"]
    assert watcher.ended()["event"] == "error"
    assert_well(breakable)


def test_a_worker_that_hangs_is_ended_by_the_time_limit(breakable):
    job_id = breakable.submit(LONG, time_limit=3)
    watcher = Watcher(breakable.port, job_id)
    pid = breakable.busy_pid(job_id)

    os.kill(pid, signal.SIGSTOP)

    job = breakable.finished(job_id)
    assert (job["state"], job["error_kind"]) == ("failed", "time_limit")
    assert job["error"].startswith("it took longer than its limit of 3 s; ask with a longer time_limit")
    assert_sentence(job["error"])
    assert watcher.ended()["data"]["error_kind"] == "time_limit"
    assert not is_running(pid)
    assert_well(breakable)


def test_a_worker_that_dies_while_it_waits_costs_no_job(breakable):
    pid = breakable.warm_pid("prediction-0")
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    job = breakable.finished(breakable.submit(quick()))

    assert job["state"] == "done"
    assert breakable.warm_pid("prediction-0") != pid
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


def test_a_watcher_who_reads_slowly_gets_the_last_event_too(tmp_path):
    question = Question(request=mm.Request(model="bert", target=mm.Target(gpu="a10")))
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        live = LiveJob(new_job(question, "http"), store, max_seconds=1)
        live.add()
        stream = live.watch(0, heartbeat_seconds=0.1)
        heard = [event.event for event in next(stream)]

        live.tell("state", {"state": "running"}, state="running")
        live.tell("error", {}, state="failed", error="it failed.")  # while what came before is still being sent
        heard += [event.event for happened in stream for event in happened]

    assert heard == ["state", "state", "error"]


def test_a_stream_tells_a_failure_in_the_words_of_the_job(breakable):
    job_id = breakable.submit(quick(), memory_gib=0.001)
    watcher = Watcher(breakable.port, job_id)
    job = breakable.finished(job_id)

    assert (job["state"], job["error_kind"]) == ("failed", "does_not_fit")
    why = {name: job[name] for name in ("state", "error", "error_kind", "suggestions", "problem")}
    assert watcher.ended()["data"] == why


def test_nobody_hears_of_an_answer_before_it_is_written(tmp_path):
    question = Question(request=mm.Request(model="bert", target=mm.Target(gpu="a10")))
    database = tmp_path / "history.db"
    with closing(Store(f"sqlite:///{database}")) as store:
        live = LiveJob(new_job(question, "http"), store, max_seconds=1)
        live.add()
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # nobody else can write now
            teller = threading.Thread(target=live.tell, args=["result", {}], kwargs={"state": "done", "result": {}})
            teller.start()
            teller.join(0.5)
            state_meanwhile = live.job.state
            other.execute("ROLLBACK")
        teller.join(PATIENCE_SECONDS)

        assert state_meanwhile == "queued"
        assert (live.job.state, store.job(live.job.id).state) == ("done", "done")


# A worker that is not ready yet


@contextmanager
def starting_worker(breakable):
    """The process id of a worker of the CPU lane that is not ready yet."""
    if breakable.lane("cpu")["pid"] is None:  # it has no worker before its first job
        breakable.finished(breakable.submit(SHORT, seq_len=16, fresh=True))
    breakable.warm_pid("cpu")
    job_id = breakable.submit(SLOW)
    others = {breakable.busy_pid(job_id), breakable.warm_pid("prediction-0")}
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


def test_a_worker_that_could_not_start_is_tried_again_without_a_job(monkeypatch):
    tries = []

    class FailsOnce(WorkerProcess):
        def __init__(self, confinement):
            super().__init__(confinement)
            tries.append(self.process.pid)
            if len(tries) == 1:
                self.interrupt()

    monkeypatch.setattr(warm_workers, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(warm_workers, "WorkerProcess", FailsOnce)
    lane_workers = WarmWorkers(reuse=False)
    try:
        lane_workers.prepare()
        wait_until(lambda: lane_workers.state == "failed")
        wait_until(lambda: lane_workers.state == "ready")
        assert [lane_workers.pid] == tries[1:]
    finally:
        lane_workers.stop()
    assert not any(map(is_running, tries))


@pytest.mark.parametrize("is_there", [False, True], ids=["before it is there", "while it starts"])
def test_a_worker_that_nobody_waits_for_any_more_is_not_left_behind(monkeypatch, is_there):
    started = threading.Event()

    class SlowToStart(WorkerProcess):
        def __init__(self, confinement):
            time.sleep(0 if is_there else 0.5)
            super().__init__(confinement)
            started.set()

    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK_VARIABLE, mark)
    monkeypatch.setattr(warm_workers, "WorkerProcess", SlowToStart)
    lane_workers = WarmWorkers(reuse=False)
    try:
        with pytest.raises(StoppedError):  # as for a job that is cancelled
            lane_workers.take(started.is_set if is_there else lambda: True)
        assert started.wait(PATIENCE_SECONDS)
        wait_until(lambda: workers(mark) == set(), seconds=20)
        lane_workers.stop()
        assert workers(mark) == set()
    finally:
        end_workers(mark)


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
