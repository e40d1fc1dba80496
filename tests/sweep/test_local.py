"""A sweep on this machine, with real workers."""

import os
import signal
from contextlib import closing

import pytest

from memorymark.errors import UsageError
from memorymark.history import Store
from memorymark.sweep.local import LocalEngine
from memorymark.sweep.running import Sweeping
from support.processes import is_running, wait_until
from support.sweeps import SHARED, cases, finished, margins


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'history.db'}"


def sweep(url, engine, document, **options):
    with closing(Store(url)) as store:
        return Sweeping(cases(document), engine, store, **options).run()


def test_a_worker_that_is_killed_costs_no_answer_and_none_stays_behind(url):
    engine = LocalEngine(workers=2)
    killed = []

    def kill_one(progress):
        if progress.done == 2 and not killed:
            killed.append(engine.processes.pids[0])
            os.kill(killed[0], signal.SIGKILL)

    grid = sweep(url, engine, SHARED + margins(3), on_progress=kill_one, together_at_most=3)

    assert killed
    assert (len(grid.cases), grid.failed) == (12, 0)
    assert list(finished(url).values()) == [1] * 12
    wait_until(lambda: not any(map(is_running, engine.processes.pids)))


def test_what_is_interrupted_leaves_no_worker_and_goes_on_later(url):
    engine = LocalEngine(workers=1)

    def interrupt(progress):
        if progress.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(url, engine, SHARED, on_progress=interrupt)
    begun = list(engine.processes.pids)
    wait_until(lambda: not any(map(is_running, begun)))
    before = finished(url)
    rest = sweep(url, LocalEngine(workers=1), SHARED)

    assert begun
    assert sum(before.values()) == 1
    assert (rest.reused, rest.failed) == (1, 0)
    assert list(finished(url).values()) == [1] * 4


def test_a_case_that_does_not_fit_is_an_answer_without_a_search_for_what_would(url):
    grid = sweep(url, LocalEngine(workers=1), SHARED.replace("0.05", "0.001").replace(", l4, l40s, rtx3090", ""))

    (case,) = grid.cases
    assert (case.error_code, case.has_failed, grid.failed) == ("does_not_fit", False, 0)


def test_a_gpu_that_is_not_here_is_refused_before_anything_runs(url):
    engine = LocalEngine(workers=1)

    with pytest.raises(UsageError, match=r"no b200 in this machine to measure on"):
        sweep(url, engine, "model: bert\ngpu: b200\nmeasure: true\n")
    assert engine.processes.pids == []


def test_steps_are_measured_one_set_at_a_time_on_a_device(url):
    grid = sweep(url, LocalEngine(workers=2), "model: bert\nsmall: true\nseq_len: 8\ndevice: cpu\nmax_batch: [1, 2]\n")

    assert [(case.source, case.max_batch_size) for case in grid.cases] == [("measured", 1), ("measured", 2)]


@pytest.mark.parametrize("workers", [0, -1])
def test_the_number_of_workers_is_checked(workers):
    with pytest.raises(UsageError, match="must be 1 or more"):
        LocalEngine(workers=workers)
