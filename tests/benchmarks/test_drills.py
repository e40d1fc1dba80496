"""The drills judge rightly: what was lost, is stuck or came twice is found, and what is honest is no fault."""

from collections import Counter

import pytest

from drilling.judge import (
    HEADER,
    Outcome,
    Promise,
    Record,
    Sent,
    damaged_streams,
    different_answers,
    losses,
    percentile,
    server_errors,
)

DONE_EVENTS = ((1, "state"), (2, "state"), (3, "trial"), (4, "result"))


def record(job_id="a", state="done", **more):
    facts = {"name": f"name-{job_id}", "started_at": 10.0, "finished_at": 20.0, **more}
    return Record(job_id, state=state, **facts)


def found(sent, *records):
    return losses(sent, records)


def test_where_all_is_well_nothing_is_found():
    sent = Sent(acknowledged={"a", "b"}, once={"name-a", "name-b"})

    judged = found(sent, record("a", events=DONE_EVENTS), record("b"))

    assert (judged.lost, judged.stuck, judged.duplicated, judged.innocent) == ([], [], [], [])
    assert all(promise.is_kept for promise in judged.promises())


def test_what_was_acknowledged_and_is_not_in_the_history_is_lost():
    assert found(Sent(acknowledged={"a", "b", "c"}), record("b")).lost == ["a", "c"]


@pytest.mark.parametrize("state", ["queued", "running"])
def test_what_has_not_ended_is_stuck_whether_it_was_acknowledged_or_not(state):
    assert found(Sent(), record("a", state)).stuck == ["a"]


def test_a_question_asked_once_that_has_two_jobs_is_duplicated():
    twice = [record("a", name="same"), record("b", name="same")]

    assert found(Sent(once={"same"}), *twice).duplicated == ["same"]
    assert found(Sent(), *twice).duplicated == []  # several asked for it


def test_an_id_that_is_there_twice_is_duplicated():
    assert found(Sent(), record("a"), record("a")).duplicated == ["a"]


@pytest.mark.parametrize(
    "events",
    [
        ((1, "state"), (3, "result")),
        ((1, "state"), (1, "state")),
        ((1, "state"), (2, "result"), (3, "result")),
        ((1, "state"), (2, "error"), (3, "trial")),
    ],
    ids=["gap", "number twice", "end twice", "something after the end"],
)
def test_events_that_came_twice_or_not_at_all_are_found(events):
    assert found(Sent(), record("a", events=events)).duplicated == ["a"]


def test_a_job_that_a_kill_of_its_worker_ended_failed_for_a_reason():
    failed = record("a", "failed", error_kind="worker")

    assert found(Sent(acknowledged={"a"}, worker_kills=[15.0]), failed).innocent == []
    assert found(Sent(acknowledged={"a"}, worker_kills=[25.0]), failed).innocent == ["a"]
    assert found(Sent(acknowledged={"a"}, worker_kills=[5.0]), failed).innocent == ["a"]


def test_one_kill_is_the_reason_of_one_failure_only():
    failed = [record(job_id, "failed", error_kind="worker") for job_id in "ab"]

    assert found(Sent(acknowledged={"a", "b"}, worker_kills=[15.0]), *failed).innocent == ["b"]
    assert found(Sent(acknowledged={"a", "b"}, worker_kills=[15.0, 16.0]), *failed).innocent == []


@pytest.mark.parametrize("kind", ["internal", "time_limit", "usage", None])
def test_no_kill_is_a_reason_for_another_kind_of_failure(kind):
    failed = record("a", "failed", error_kind=kind)

    assert found(Sent(acknowledged={"a"}, worker_kills=[15.0], server_kills=[15.0]), failed).innocent == ["a"]


def test_interrupted_is_honest_only_where_the_server_was_killed_after_the_start():
    interrupted = record("a", "interrupted", error_kind="stopped")

    assert found(Sent(acknowledged={"a"}, server_kills=[12.0]), interrupted).innocent == []
    assert found(Sent(acknowledged={"a"}, server_kills=[9.0]), interrupted).innocent == ["a"]
    assert found(Sent(acknowledged={"a"}, server_kills=[12.0]), record("a", "interrupted", started_at=None)).innocent


def test_only_who_was_cancelled_may_be_cancelled():
    assert found(Sent(acknowledged={"a"}, cancelled={"a"}), record("a", "cancelled")).innocent == []
    assert found(Sent(acknowledged={"a"}, cancelled={"b"}), record("a", "cancelled")).innocent == ["a"]


def test_a_listener_who_missed_an_event_or_heard_one_twice_is_counted():
    assert damaged_streams([[], [1], [1, 2, 3]]) == 0
    assert damaged_streams([[1, 3], [1, 2, 2], [2]]) == 3


def test_a_question_with_two_answers_is_named():
    assert different_answers([("a", {"x": 1}), ("b", 2), ("a", {"x": 1})]) == []
    assert different_answers([("a", {"x": 1}), ("b", 2), ("a", {"x": 2})]) == ["a"]


def test_answers_that_say_when_to_come_again_are_no_faults():
    assert server_errors(Counter({200: 5, 404: 1, 429: 2, 503: 3, 504: 1})) == 0
    assert server_errors(Counter({200: 5, 500: 2, 502: 1})) == 3


def test_percentiles_are_values_that_were_seen():
    hundred = [float(number) for number in range(100, 0, -1)]

    assert (percentile(hundred, 50), percentile(hundred, 99), percentile([7.0], 99)) == (50.0, 99.0, 7.0)


def test_a_row_says_what_was_broken_and_only_that():
    good = Outcome("calm", "nothing", count=1000, losses=found(Sent()), milliseconds=[1.0, 2.0])
    bad = Outcome(
        "storm",
        "much",
        losses=found(Sent(acknowledged={"a"})),
        statuses=Counter({500: 2}),
        promises=[Promise("quick", True), Promise("p99 80 ms, not 50", False)],
    )

    assert good.row() == ["calm", "nothing", "1,000", 0, 0, 0, 0, "1.0", "2.0", "kept"]
    assert bad.verdict() == "broken: lost 1; 2 answers of 5xx; p99 80 ms, not 50"
    assert len(good.row()) == len(bad.row()) == len(HEADER)
