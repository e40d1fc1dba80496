"""Sweeps in the history: what is known of one, and how one that stopped is told from one that runs."""

import threading
import time

import pytest
from sqlalchemy import create_engine, text

from memorymark.errors import UsageError
from memorymark.history.listed_sweep import SILENCE_SECONDS, AxisValue, SweepAxis, SweepCase
from support.grids import case, unanswered

AXES = (SweepAxis("gpu", "GPU", (AxisValue("a10", "NVIDIA A10"), AxisValue(None, "not set")), True),)


def waiting(count):
    return [SweepCase(case=case(number), is_answered=False) for number in range(1, count + 1)]


def begin(store, sweep_id="abc", count=3, **answered):
    cases = waiting(count)
    for one in answered.values():
        cases[one.number - 1] = SweepCase(case=one, is_answered=True)
    store.sweeps.begin(sweep_id, "sweep.yaml", AXES, cases)


def execute(store, *statements):
    with store.connection() as connection:
        for statement in statements:
            connection.execute(text(statement))
        connection.commit()


def silent_for(store, seconds, sweep_id="abc"):
    execute(store, f"UPDATE sweeps SET alive_at = alive_at - {seconds} WHERE id = '{sweep_id}'")


def states(store, after=0):
    return {one.case.number: one.state for _, one in store.sweeps.cases("abc", after=after)}


def test_a_sweep_is_as_it_began_with_what_the_history_knew(store):
    begin(store, one=case(2, 100.0, 1.0, is_new=False))

    sweep = store.sweeps.find("abc")

    assert (sweep.source, sweep.axes, sweep.state) == ("sweep.yaml", AXES, "running")
    assert (sweep.total, sweep.done, sweep.failed, sweep.reused, sweep.seconds_left) == (3, 1, 0, 1, None)
    assert states(store) == {1: "waiting", 2: "done", 3: "waiting"}
    assert dict(store.sweeps.cases("abc"))[2].case == case(2, 100.0, 1.0, is_new=False)
    assert store.sweeps.find("nothing") is None


def test_only_what_has_changed_is_read_in_the_order_of_the_changes(store):
    begin(store)
    last = store.sweeps.find("abc").change
    failed, unfit = unanswered(3, "worker_lost", "it was lost."), unanswered(1, "does_not_fit", "it does not fit.")

    store.sweeps.ended("abc", [failed, unfit])

    assert list(states(store, after=last).items()) == [(3, "failed"), (1, "does_not_fit")]
    assert [number for number, _ in store.sweeps.cases("abc", after=last)] == [last + 1, last + 2]
    assert (store.sweeps.find("abc").done, store.sweeps.find("abc").failed) == (2, 1)
    assert store.sweeps.cases("abc", after=store.sweeps.find("abc").change) == []


def test_one_that_gives_no_sign_of_life_counts_as_stopped_until_it_gives_one(store):
    begin(store)
    silent_for(store, SILENCE_SECONDS / 2)
    halfway = store.sweeps.find("abc").state
    silent_for(store, SILENCE_SECONDS)
    killed = store.sweeps.find("abc")
    store.sweeps.give_sign("abc")

    assert (halfway, killed.state, killed.seconds_left) == ("running", "stopped", None)
    assert store.sweeps.find("abc").state == "running"


def test_one_that_ends_is_stopped_at_once_or_finished_for_good(store):
    begin(store)
    store.sweeps.end("abc", is_finished=False)
    stopped = store.sweeps.find("abc")
    store.sweeps.ended("abc", [case(number, 10.0) for number in (1, 2, 3)])
    store.sweeps.end("abc", is_finished=True)
    silent_for(store, 2 * SILENCE_SECONDS)

    assert (stopped.state, stopped.to_dict()["finished_at"]) == ("stopped", None)
    assert store.sweeps.find("abc").state == "finished"
    assert store.sweeps.find("abc").to_dict()["finished_at"] is not None


def test_one_that_is_run_again_is_the_same_and_every_case_has_changed(store):
    begin(store)
    store.sweeps.ended("abc", [case(1, 10.0)])
    store.sweeps.end("abc", is_finished=False)
    last = store.sweeps.find("abc").change

    begin(store, one=case(1, 10.0, is_new=False))

    assert [(one.id, one.state, one.reused) for one in store.sweeps.latest()] == [("abc", "running", 1)]
    assert states(store, after=last) == {1: "done", 2: "waiting", 3: "waiting"}


def test_two_runs_of_one_sweep_count_each_case_once(store):
    begin(store)
    begin(store)  # another process, before the first had an answer
    store.sweeps.ended("abc", [case(1, 10.0), unanswered(2, "worker_lost", "it was lost.")])
    last = store.sweeps.find("abc").change

    store.sweeps.ended("abc", [case(1, 20.0)])

    assert (store.sweeps.find("abc").done, store.sweeps.find("abc").failed) == (2, 1)
    assert store.sweeps.cases("abc", after=last) == []
    assert dict(store.sweeps.cases("abc"))[last - 1].case == case(1, 10.0)


def test_a_run_in_another_order_answers_no_other_case(store):
    def asked(*lengths):
        cases = [case(number, options={"seq_len": length}) for number, length in enumerate(lengths, 1)]
        store.sweeps.begin("abc", "", AXES, [SweepCase(case=one, is_answered=False) for one in cases])

    asked(8, 16, 32)
    asked(32, 16, 8)

    store.sweeps.ended("abc", [case(number, 10.0, options={"seq_len": 8 * number}) for number in (1, 2)])

    assert store.sweeps.find("abc").done == 1
    assert states(store) == {1: "waiting", 2: "done", 3: "waiting"}


def test_a_run_that_is_interrupted_leaves_finished_what_another_has_finished(store):
    begin(store, count=1)
    store.sweeps.ended("abc", [case(1, 10.0)])
    store.sweeps.end("abc", is_finished=True)

    store.sweeps.end("abc", is_finished=False)

    assert store.sweeps.find("abc").state == "finished"


def test_a_run_that_ends_does_not_finish_what_another_has_begun_anew(store):
    begin(store, count=1)
    store.sweeps.ended("abc", [case(1, 10.0)])
    begin(store, count=1)

    store.sweeps.end("abc", is_finished=True)

    assert store.sweeps.find("abc").state == "running"


def test_two_processes_may_begin_the_same_sweep_at_once(store, url):
    began = []
    engine = create_engine(url)
    with engine.begin() as other:
        other.execute(
            text(
                "INSERT INTO sweeps (id, source, axes, total, done, failed, reused, change, started_at, alive_at) "
                "VALUES ('abc', '', '[]', 3, 0, 0, 0, 3, 1, 1)"
            )
        )
        beginning = threading.Thread(target=lambda: began.append(begin(store)))
        beginning.start()
        beginning.join(0.3)  # it waits for the other's transaction
    beginning.join()
    engine.dispose()

    assert began == [None]
    assert store.sweeps.find("abc").change == 6


def test_clocks_of_other_machines_do_not_matter(store, monkeypatch):
    with store.connection() as connection:
        if connection.dialect.name == "sqlite":
            pytest.skip("the file of a machine")
    begin(store)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3600)

    assert store.sweeps.find("abc").state == "running"


def test_the_rest_takes_as_long_as_what_was_worked_out(store):
    begin(store, count=5, one=case(1, 10.0, is_new=False))
    new = case(2, 10.0)
    store.sweeps.ended("abc", [new])
    execute(store, "UPDATE sweeps SET started_at = alive_at - 10")

    assert store.sweeps.find("abc").seconds_left == pytest.approx(30.0, rel=1e-3)


def test_sweeps_are_listed_page_by_page_the_last_to_start_first(store):
    for sweep_id in ("a", "b", "c"):
        begin(store, sweep_id)
    begin(store, "a")  # again

    assert [one.id for one in store.sweeps.latest()] == ["a", "c", "b"]
    assert [one.id for one in store.sweeps.latest(limit=2)] == ["a", "c"]
    assert [one.id for one in store.sweeps.latest(before="c")] == ["b"]
    with pytest.raises(UsageError, match="no sweep 'd' to continue from"):
        store.sweeps.latest(before="d")


def test_what_is_damaged_hides_nothing_else(store):
    begin(store)
    execute(
        store,
        "UPDATE sweep_cases SET document = '[]' WHERE number = 2",
        """UPDATE sweeps SET axes = '{"a": 1}'""",
    )

    assert list(states(store)) == [1, 3]
    assert store.sweeps.find("abc").axes == ()


def test_text_that_a_database_cannot_hold_is_changed_to_what_it_can(store):
    begin(store, one=unanswered(1, "bad_workload", "half \ud800 and none \0."))

    assert dict(store.sweeps.cases("abc"))[1].case.error == "half ? and none ?."


def test_a_sweep_that_somebody_deleted_comes_not_back(store):
    store.sweeps.ended("abc", [case(1, 10.0)])
    store.sweeps.give_sign("abc")

    assert store.sweeps.latest() == []
