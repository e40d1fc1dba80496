"""Recordings of jobs, and files that are none."""

import json

import pytest

from memorymark.errors import DoesNotFitError, UsageError
from memorymark.history import JobEvent
from memorymark.history.failures import kept
from memorymark.history.recording import Recording, read_recording
from memorymark.results.trial import Trial
from support.kept_jobs import HAPPENED, asked, done

TIMES = {"created_at": 1_700_000_000.0, "started_at": 1_700_000_001.0, "finished_at": 1_700_000_009.0}


@pytest.fixture
def written(tmp_path):
    """Writes a document as a recording's file; changes replace parts of a good one."""

    def write(**changes):
        path = tmp_path / "run.json"
        path.write_text(json.dumps({**Recording.of(done(), HAPPENED).to_dict(), **changes}))
        return path

    return write


def test_a_job_is_recorded_with_its_stages_and_trials_at_the_time_they_happened():
    job = done(**TIMES)
    trial = {"stage": "search", "trial": job.result["trials"][0]}
    recording = Recording.of(job, [*HAPPENED, JobEvent(4, "trial", trial, 1_700_000_005.0)])

    assert [(moment.seconds, moment.event) for moment in recording.moments] == [(0.5, "stage"), (4.0, "trial")]
    assert recording.moments[1].happened.trial == Trial.from_dict(job.result["trials"][0])
    assert recording.seconds == 8.0
    assert recording.outcome().to_dict() == job.result


def test_a_recording_reads_back_as_it_was_written(written):
    assert read_recording(written()) == Recording.of(done(), HAPPENED)


def test_the_name_of_the_host_is_left_out_because_recordings_are_shown_around():
    job = done()

    assert Recording.of(job, HAPPENED).machine == {**job.machine, "host": ""}


def test_what_was_measured_on_any_device_is_asked_for_on_that_one():
    recording = Recording.of(done(), HAPPENED)

    assert recording.facts.options["device"] == "cuda"
    assert (recording.facts.gpu_name, recording.facts.source) == ("NVIDIA H200", "measured")


def test_a_job_that_failed_is_recorded_with_its_error():
    problem = kept(DoesNotFitError("it does not fit", 5), "http")
    recording = Recording.of(asked(state="failed", **problem, **TIMES), HAPPENED)

    with pytest.raises(DoesNotFitError, match="it does not fit") as raised:
        recording.outcome()
    assert raised.value.shortfall_bytes == 5


@pytest.mark.parametrize("state", ["queued", "running", "cancelled", "interrupted"])
def test_a_job_that_did_not_end_by_itself_is_not_recorded(state):
    with pytest.raises(UsageError, match=f"is {state}, so there is nothing to play"):
        Recording.of(asked(state=state, **TIMES), HAPPENED)


def test_a_model_with_code_of_its_own_is_not_recorded():
    job = done()
    request = {**job.asked["request"], "model": "nets.py:make"}
    with pytest.raises(UsageError, match="code of its own"):
        Recording.of(done(asked={**job.asked, "request": request}), HAPPENED)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json cannot be read: .*; `memorymark history JOB --record FILE`"):
        read_recording(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"kind": "analysis"}', "\ufeff"])
def test_another_file_is_no_recording(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a recording") as raised:
        read_recording(path)
    assert raised.value.exit_code == 2


def test_a_recording_of_another_version_is_named_as_such(written):
    with pytest.raises(UsageError, match="another version of MemoryMark"):
        read_recording(written(format=2))


@pytest.mark.parametrize(
    "damage",
    [
        {"result": None},
        {"result": {"kind": "analysis"}},
        {"question": {}},
        {"moments": [{"seconds": 1.0, "event": "trial", "data": {}}]},
        {"moments": [{"seconds": 1.0, "event": "result", "data": {}}]},
        {"moments": None},
        {"unknown": 1},
    ],
    ids=str,
)
def test_damage_is_found_before_anything_is_played(written, damage):
    with pytest.raises(UsageError, match="damaged"):
        read_recording(written(**damage))
