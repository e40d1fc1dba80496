"""Profiles of GPUs as the service takes them: by the names that it has, never as files."""

import pytest

import memorymark as mm
from memorymark.errors import NotAllowedError
from memorymark.history import Store
from memorymark.profiles.stored import write
from memorymark.question.question import Question
from memorymark.server.app import create_app
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from support.profiles import SHIPPED


def jobs_in(tmp_path, *, allow_code=False):
    """A line that takes jobs and works on none."""
    store = Store(f"sqlite:///{tmp_path}/history.db")
    return Jobs(store, [Lane("one", WarmWorkers(reuse=True))], queue_size=100, max_seconds=60, allow_code=allow_code)


def post(jobs, settings=None, **body):
    http = create_app(jobs, settings or Settings()).test_client()
    answer = http.post("/jobs", json={"model_name": "bert", **body})
    jobs.store.close()
    return answer.status_code, answer.json


@pytest.mark.parametrize("profile", ["h200", "none"])
def test_a_name_is_taken(tmp_path, profile):
    status, answer = post(jobs_in(tmp_path), gpu="h200", profile=profile)

    assert status == 202, answer


@pytest.mark.parametrize("profile", ["/etc/passwd", "h200.json", "../h200", "./h200", "/nowhere/h200.json"])
def test_files_are_refused_without_looking_at_them(tmp_path, profile):
    status, answer = post(jobs_in(tmp_path), gpu="h200", profile=profile)

    assert (status, answer["code"], answer["field"]) == (403, "not_allowed", "profile")
    assert answer["error"].startswith("this service does not open files for callers; give the name of a profile")


def test_a_file_is_refused_whichever_way_it_comes(tmp_path):
    jobs = jobs_in(tmp_path)
    target = mm.Target(gpu="h200", profile="/etc/passwd.json")

    with pytest.raises(NotAllowedError, match="does not open files for callers"):
        jobs.submit(Question(request=mm.Request(model="bert", target=target)))
    jobs.store.close()


def test_an_operator_who_allows_code_allows_files(tmp_path):
    file = write(SHIPPED, tmp_path / "mine.json")
    status, answer = post(jobs_in(tmp_path, allow_code=True), Settings(allow_code=True), gpu="h200", profile=str(file))

    assert status == 202, answer


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"gpu": "h200", "profile": "h20"}, "there is no profile 'h20'; did you mean h200?"),
        ({"gpu": "a10", "profile": "h200"}, "profile h200 is of the NVIDIA H200, and gpu a10 asks for another GPU"),
        ({"profile": "h200"}, "profile corrects predictions; name the GPU to predict for with gpu."),
    ],
)
def test_a_profile_that_cannot_be_used_is_a_bad_request(tmp_path, body, said):
    status, answer = post(jobs_in(tmp_path), **body)

    assert (status, answer["status"]) == (400, "error")
    assert answer["error"].startswith(said)
