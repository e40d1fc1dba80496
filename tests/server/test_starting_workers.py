"""A worker takes seconds to start: meanwhile it may fail, and whoever waits for it may leave."""

import threading
import time
import uuid
from pathlib import Path

import pytest

from memorymark.errors import StoppedError
from memorymark.server import warm_workers
from memorymark.server.warm_workers import WarmWorkers
from memorymark.worker.supervisor import WorkerProcess
from support.faults import MARK_VARIABLE, end_workers, workers
from support.processes import PATIENCE_SECONDS, is_running, wait_until

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
    pytest.mark.usefixtures("workers_are_fresh"),
]


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
