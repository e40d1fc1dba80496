"""A sweep as a whole, with an engine that answers at once, or loses what it was given."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from memorymark.errors import DoesNotFitError, UsageError, WorkerLostError
from memorymark.history import Store
from memorymark.sweep.running import MOST_ATTEMPTS, Sweeping
from memorymark.sweep.work import together
from support.engines import Instant
from support.recorded_analyses import recorded
from support.sweeps import cases, finished

GRID = "model: bert\ngpu: [a10, h100]\nmargin: [0.05, 0.1, 0.15]\n"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'history.db'}"


@pytest.fixture
def swept(url):
    def run(engine, **options):
        with closing(Store(url)) as store:
            return Sweeping(cases(GRID), engine, store, **options).run()

    return run


def test_answers_are_in_the_history_with_where_they_came_from(swept, url):
    grid = swept(Instant())

    with closing(Store(url)) as store:
        jobs = [store.find(case.job) for case in grid.cases]
    assert [job.key for job in jobs] == [case.key for case in cases(GRID)]
    assert {(job.state, job.machine["host"]) for job in jobs} == {("done", "node-1")}
    assert {case.max_batch_size for case in grid.cases} == {recorded("bert_fp32")[1].max_batch_size}


def test_what_the_history_has_is_not_run_again_unless_fresh(swept):
    swept(Instant())
    again, fresh = Instant(), Instant()

    reused = swept(again)
    swept(fresh, fresh=True)

    assert (again.begun, reused.reused, len(fresh.begun)) == ([], 6, 6)


def test_a_stopped_sweep_goes_on_where_it_was(swept, url):
    with pytest.raises(KeyboardInterrupt):
        swept(Instant(stops_after=3), together_at_most=1)
    rest = Instant()
    grid = swept(rest)

    assert (len(rest.begun), len(grid.cases), grid.failed) == (3, 6, 0)
    assert set(finished(url).values()) == {1}


def test_an_engine_is_closed_whatever_happens(swept):
    engines = [Instant(), Instant(stops_after=0)]
    swept(engines[0], fresh=True)
    with pytest.raises(KeyboardInterrupt):
        swept(engines[1], fresh=True)

    assert [engine.is_closed for engine in engines] == [True, True]


def test_a_lost_node_costs_a_retry_and_no_result(swept, url):
    engine = Instant(loses={2: 1, 5: 2})

    grid = swept(engine)

    assert grid.failed == 0
    assert set(finished(url).values()) == {1}
    assert len(finished(url)) == 6
    assert (engine.begun.count(2), engine.begun.count(5)) == (2, 3)


def test_killed_at_random_ten_times_it_ends_complete_and_does_nothing_twice(url):
    """The processes are killed as by a machine that fails: nothing in them can react."""
    tests = Path(__file__).parents[1]
    script = "import sys; from support.engines import sweep_and_be_killed; sweep_and_be_killed(sys.argv[1], 10)"
    paths = {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")])}
    swept = subprocess.run([sys.executable, "-c", script, url], env={**os.environ, **paths}, stdout=subprocess.PIPE)
    answered = [int(count) for count in swept.stdout.split()]

    assert len(answered) == 11
    assert answered == sorted(answered)
    assert answered[0] < answered[9] < answered[10]
    assert list(finished(url).values()) == [1] * 60


def test_a_case_that_always_loses_its_worker_fails_alone(swept):
    grid = swept(Instant(loses={4: 1000}))

    (failed,) = [case for case in grid.cases if case.has_failed]
    assert (failed.number, failed.error_code) == (4, "worker_lost")
    assert f"begun {MOST_ATTEMPTS} times" in failed.error
    assert grid.answered == 5


def test_a_failing_case_stops_no_other_and_is_tried_again_by_the_next_sweep(swept):
    fails = {1: UsageError("no such file.", code="not_readable"), 2: DoesNotFitError("it does not fit.")}
    grid = swept(Instant(fails=fails))
    again = Instant()
    swept(again)

    assert [(case.number, case.error_code) for case in grid.cases if not case.fits] == [
        (1, "not_readable"),
        (2, "does_not_fit"),
    ]
    assert (grid.failed, grid.answered) == (1, 5)
    assert again.begun == [1]  # that it does not fit is an answer


def test_a_worker_that_is_lost_once_is_replaced(swept):
    lost = WorkerLostError("the worker was killed.")

    class LostOnce(Instant):
        def _happens(self, work):
            yield from super()._happens(work)
            self.fails = self.fails if 3 not in self.begun else {}

    engine = LostOnce(fails={3: lost})
    grid = swept(engine, together_at_most=1)

    assert grid.failed == 0
    assert engine.begun.count(3) == 2


def test_an_answer_from_another_gpu_than_asked_for_is_none(tmp_path):
    measured = cases("model: bert\ngpu: a10\nmeasure: true\n")
    with closing(Store(f"sqlite:///{tmp_path / 'history.db'}")) as store:
        grid = Sweeping(measured, Instant(), store).run()

    assert "was to run on a10 and ran on" in grid.cases[0].error


def test_progress_counts_and_estimates(swept):
    heard = []
    swept(Instant(fails={1: UsageError("no.")}), on_progress=heard.append)

    assert [one.done for one in heard] == list(range(7))
    assert (heard[0].seconds_left, heard[-1].seconds_left, heard[-1].failed) == (None, 0.0, 1)
    assert all(one.seconds_left > 0 for one in heard[1:-1])


def test_sets_hold_what_shares_a_trace_and_are_not_too_large():
    found = cases("model: bert\ngpu: [a10, l4]\nmargin: [0.01, 0.02, 0.03]\nseq_len: [8, 16]\n")

    sets = together(found, 4)

    assert sorted(len(work.cases) for work in sets) == [2, 2, 4, 4]
    assert all(len({case.trace for case in work.cases}) == 1 for work in sets)
    assert sorted(case.number for work in sets for case in work.cases) == [case.number for case in found]
