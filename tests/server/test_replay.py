"""``memorymark serve --replay``: a recorded job over HTTP, as if it happened now."""

import json
import os
import subprocess
import sys
import time
from datetime import datetime

import pytest

from memorymark.errors import DoesNotFitError
from memorymark.history import Store
from memorymark.history.failures import kept
from memorymark.history.recording import Recording
from support.calls import is_error, sent_events
from support.kept_jobs import HAPPENED, asked
from support.recordings import MEASURED, PREDICTED, replaying

RECORDED = json.loads(MEASURED.read_text())
QUESTION = {"model_name": "bert", "device": "cuda", "memory_gib": 21.7}
LONELY = """
import sys
from support.recordings import replaying
with replaying() as call:
    call.finished(call.submit(%r))
assert "torch" not in sys.modules
"""


@pytest.fixture(scope="module")
def call():
    with replaying() as call:
        yield call


def seconds_since(start, event):
    return (datetime.fromisoformat(event["at"]) - datetime.fromisoformat(start["at"])).total_seconds()


def test_the_recorded_events_and_the_recorded_result_are_played(call):
    job = call.finished(call.submit(QUESTION))
    events = call.events(job["id"])

    assert [one["event"] for one in events[:2]] == ["state", "state"]
    played = [(one["event"], one["data"]) for one in events[2:-1]]
    assert played == [(moment["event"], moment["data"]) for moment in RECORDED["moments"]]
    assert events[-1]["event"] == "result"
    assert job["result"] == events[-1]["data"] == RECORDED["result"]


def test_events_arrive_in_a_stream(call):
    stream = call.get(f"/jobs/{call.submit(QUESTION)}/events", Accept="text/event-stream")

    trials = [one for one in sent_events(stream.body) if one["event"] == "trial"]
    assert len(trials) == len(RECORDED["result"]["trials"])


def test_the_pace_is_the_recorded_one_times_the_speed():
    with replaying(speed=20.0) as call:
        events = call.events(call.finished(call.submit(QUESTION))["id"])

    for moment, event in zip(RECORDED["moments"], events[2:-1], strict=True):
        assert seconds_since(events[1], event) >= moment["seconds"] / 20 - 0.01
    assert RECORDED["seconds"] / 20 - 0.01 <= seconds_since(events[1], events[-1]) < RECORDED["seconds"] / 4


def test_everything_says_that_it_was_recorded(call):
    recording = call.health()["recording"]
    answer = call.post("/analyze", QUESTION).json
    job = call.job(answer["job_id"])

    assert (recording["gpu_name"], recording["source"]) == ("NVIDIA H200", "measured")
    assert recording["recorded_at"] == "2026-11-15"
    assert recording["note"] == RECORDED["note"]
    assert (answer["origin"], job["origin"]) == ("recording", "recording")
    assert (job["machine"], job["versions"]) == (RECORDED["machine"], RECORDED["versions"])
    assert {one["origin"] for one in call.get("/jobs").json["jobs"]} == {"recording"}


def test_the_service_that_computes_plays_nothing(served):
    with served() as call:
        assert call.health()["recording"] is None


def test_the_options_that_the_health_names_play_the_recording(call):
    assert call.post("/jobs", call.health()["recording"]["options"]).status == 202


@pytest.mark.parametrize(
    "question",
    [
        {"model_name": "google-bert/bert-base-uncased", "device": "cuda", "memory_gib": 21.7},
        {"model_name": "bert", "memory_gib": 21.7},
        {**QUESTION, "batch_size": 16, "fresh": True},
    ],
    ids=str,
)
def test_the_same_question_in_other_words_plays_it_too(call, question):
    assert call.post("/jobs", question).status == 202


@pytest.mark.parametrize(
    "question",
    [
        {"model_name": "gpt2"},
        {"model_name": "bert", "gpu": "a10"},
        {**QUESTION, "precision": "bf16"},
        {**QUESTION, "advise": True},
        {"model_name": "bert", "all_gpus": True},
    ],
    ids=str,
)
def test_another_question_is_refused_and_the_recorded_one_offered(call, question):
    refused = call.post("/jobs", question)

    assert is_error(refused, 400)
    assert "a recording of one question about BERT base" in refused.json["error"]
    (offered,) = refused.json["suggestions"]
    changed = {name: value for name, value in {**question, **offered["change"]}.items() if value is not None}
    assert call.post("/jobs", changed).status == 202


def test_each_question_plays_it_again(call):
    first, second = call.submit(QUESTION), call.submit(QUESTION)

    assert first != second
    assert call.finished(second)["result"] == call.finished(first)["result"]


def test_a_played_job_is_cancelled_at_once():
    with replaying(speed=1.0) as call:
        job_id = call.submit(QUESTION)
        began = time.monotonic()
        assert call.cancel(job_id)["state"] == "cancelled"
        assert time.monotonic() - began < 5


def test_a_recorded_failure_fails_again(tmp_path):
    times = {"created_at": 1.0, "started_at": 1.0, "finished_at": 2.0}
    failed = asked(state="failed", **kept(DoesNotFitError("BERT base does not fit.", 5), "http"), **times)
    path = tmp_path / "failed.json"
    path.write_text(json.dumps(Recording.of(failed, HAPPENED[:1]).to_dict()))
    with replaying(path) as call:
        job = call.finished(call.submit({"model_name": "bert"}))

    assert (job["state"], job["error_kind"]) == ("failed", "does_not_fit")
    assert job["error"] == "BERT base does not fit."


def test_a_prediction_for_a_gpu_is_played():
    with replaying(PREDICTED) as call:
        job = call.finished(call.submit({"model_name": "bert"}))

    assert (job["target"], job["result"]["source"]) == ("a10", "predicted")


def test_nothing_that_is_played_gets_into_the_history(call):
    call.finished(call.submit(QUESTION))

    store = Store(os.environ["MEMORYMARK_DATABASE"])
    assert {job.origin for job in store.jobs()} <= {"cli", "http"}
    store.close()


def test_it_needs_no_torch():
    environment = {**os.environ, "PYTHONPATH": "tests"}
    subprocess.run([sys.executable, "-c", LONELY % QUESTION], env=environment, check=True, timeout=120)
