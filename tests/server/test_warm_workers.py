"""Whoever asks for a worker gets one that is there; one that was ended is never given to anybody."""

import os
import signal
from contextlib import contextmanager

import pytest

from memorymark.server.warm_workers import Lease, WarmWorkers
from memorymark.worker import supervisor as process
from memorymark.worker.supervisor import FreshWorkers, KeptWorkers
from support.processes import is_running

# Answers whatever it is asked, and imports nothing for it.
ANSWERS = """
import sys
for line in sys.stdin:
    print('{"result": {}}', flush=True)
"""


@pytest.fixture(autouse=True)
def quick_workers(monkeypatch):
    """Real processes and pipes, but ready at once."""
    monkeypatch.setattr(process, "START_WORKER", ANSWERS)


@contextmanager
def warm(**options):
    workers = WarmWorkers(reuse=True, **options)
    try:
        yield workers
    finally:
        workers.stop()


def unseen(worker, monkeypatch):
    """As in the moment in which a process that was killed is not dead yet."""
    monkeypatch.setattr(worker.process, "poll", lambda: None)


def test_a_worker_that_was_given_back_serves_again():
    with warm() as workers:
        first = workers.take()
        workers.give_back(first)

        assert workers.take() is first
        first.kill()


def test_a_worker_ended_by_a_cancel_is_not_given_to_the_next_job(monkeypatch):
    with warm() as workers:
        lease = Lease().of(workers)
        worker = lease.take()
        unseen(worker, monkeypatch)

        lease.stop("cancelled")
        lease.give_back(worker)

        following = Lease().of(workers)
        other = following.take()
        assert other is not worker
        assert other.call("open", {}, 10.0) == {}
        assert not is_running(worker.process.pid)
        following.give_back(other)


def test_a_worker_killed_while_it_waits_is_not_given_to_the_next_job(monkeypatch):
    with warm() as workers:
        worker = workers.take()
        workers.give_back(worker)
        unseen(worker, monkeypatch)
        os.kill(worker.process.pid, signal.SIGKILL)

        other = workers.take()

        assert other is not worker
        assert other.call("open", {}, 10.0) == {}
        workers.give_back(other)


def test_a_worker_that_hangs_while_it_waits_is_not_given_to_the_next_job(monkeypatch):
    monkeypatch.setattr("memorymark.server.warm_workers.ANSWER_SECONDS", 0.5)
    with warm() as workers:
        worker = workers.take()
        workers.give_back(worker)
        os.kill(worker.process.pid, signal.SIGSTOP)

        other = workers.take()

        assert other is not worker
        assert not is_running(worker.process.pid)
        workers.give_back(other)


def test_a_kept_worker_that_was_ended_is_replaced(monkeypatch):
    kept = KeptWorkers(FreshWorkers())
    worker = kept.take()
    unseen(worker, monkeypatch)
    worker.interrupt()

    other = kept.take()

    assert (other is not worker, other.call("open", {}, 10.0)) == (True, {})
    assert not is_running(worker.process.pid)
    kept.close()
