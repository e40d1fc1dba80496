"""Models beyond the catalog as the service takes them: what it refuses, and what the history calls them."""

import json
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.client import as_body
from memorymark.errors import NotAllowedError
from memorymark.history import Store, new_job
from memorymark.question.configs import LARGEST_CONFIG_BYTES
from memorymark.server.app import create_app
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers

CONFIG = {"model_type": "bert", "hidden_size": 64}


def jobs_in(tmp_path, *, allow_code=False):
    """A line that takes jobs and works on none."""
    store = Store(f"sqlite:///{tmp_path}/history.db")
    return Jobs(store, [Lane("one", WarmWorkers(reuse=True))], queue_size=100, max_seconds=60, allow_code=allow_code)


@pytest.fixture
def jobs(tmp_path):
    jobs = jobs_in(tmp_path)
    yield jobs
    jobs.store.close()


@pytest.fixture
def http(jobs):
    return create_app(jobs, Settings()).test_client()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "mine"


def post(http, **body):
    answer = http.post("/jobs", json={"gpu": "a10", **body})
    return answer.status_code, answer.json


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ({"model_name": "some/model"}, "some/model"),
        ({"model_name": "some/model", "revision": "main", "task": "causal-lm"}, "some/model"),
        ({"model_name": "timm:resnet50"}, "timm:resnet50"),
        ({"config": CONFIG}, "bert config"),
        ({"config": CONFIG, "model_name": "my bert"}, "my bert"),
        ({"model_name": "meta-llama/Llama-3.1-8B"}, "llama-3.1-8b"),
    ],
)
def test_models_that_need_no_file_and_no_code_are_taken_and_found_again(http, jobs, body, called):
    status, answer = post(http, **body)

    assert status == 202
    assert jobs.get(answer["job"]["id"]).model == called
    found = http.get("/jobs", query_string={"model": body.get("model_name", called)}).json["jobs"]
    assert [job["id"] for job in found] == [answer["job"]["id"]]


@pytest.mark.parametrize(
    "model",
    ["/etc", "/etc/passwd", "./mine", "../mine", "mine/", "~/mine", "config.json", "model.bin", "a/b/c", "x.py:make",
     "/x.py:make", "os:system('ls')", "some.module:make(1)"],
)  # fmt: skip
def test_files_and_functions_are_refused_without_looking_at_them(http, model):
    status, answer = post(http, model_name=model)

    assert (status, answer["status"]) == (403, "error")
    assert answer["error"].startswith("this service does not open files or run functions for callers")


@pytest.mark.parametrize("model", ["/x.py:make", "os:system('ls')", "x.py:make", "/etc/passwd"])
def test_beside_a_config_a_name_of_code_is_only_a_name(http, jobs, model):
    status, answer = post(http, model_name=model, config=CONFIG)

    assert status == 202
    name = jobs.get(answer["job"]["id"]).question.request.name
    assert not name.runs_code
    assert name.text == model


def test_code_is_refused_whichever_way_it_comes(jobs):
    with pytest.raises(NotAllowedError, match="does not open files or run functions for callers"):
        jobs.submit(question("some.module:make"))


def test_code_that_a_model_brings_is_refused(http):
    status, answer = post(http, model_name="some/model", trust_remote_code=True)

    assert status == 403
    assert "does not run code that comes with a model" in answer["error"]


def test_a_folder_of_the_server_does_not_stand_in_for_a_hugging_face_id(http, jobs, tmp_path, monkeypatch):
    (tmp_path / "some" / "model").mkdir(parents=True)
    (tmp_path / "some" / "model" / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    _, answer = post(http, model_name="some/model")

    assert answer["job"]["question"]["request"]["config"] is None


def test_other_names_of_a_choice_are_understood(http, jobs):
    _, answer = post(
        http, model_name="resnet50", precision="bfloat16", optimizer="AdamW_8bit", task="IMAGE_classification"
    )

    asked = answer["job"]["question"]["request"]
    assert jobs.get(answer["job"]["id"]).model == "resnet"
    assert (asked["recipe"]["precision"], asked["recipe"]["optimizer"]) == ("bf16", "adamw8bit")
    assert asked["task"] == "image-classification"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({}, "model_name is missing; name a model such as bert, gpt2 or resnet (GET /models lists all)"),
        ({"model_name": ""}, "model_name is missing"),
        ({"model_name": "brt"}, "unknown model 'brt': did you mean bert? GET /models lists all"),
        ({"config": {}}, "the config has no model_type"),
        ({"config": {"model_type": "bert", "x": "y" * LARGEST_CONFIG_BYTES}}, "the config is larger than"),
        ({"model_name": "bert", "task": "summing"}, "unknown task 'summing'; use one of causal-lm"),
        ({"model_name": "bert", "revision": "x"}, "revision is for Hugging Face ids, and bert is not one"),
        ({"model_name": "bert", "audio_seconds": 3}, "audio_seconds does not apply to bert"),
    ],
)
def test_nonsense_is_answered_with_a_sentence(http, body, complaint):
    status, answer = post(http, **body)

    assert status == 400
    assert answer["error"].startswith(complaint)


def test_an_operator_can_allow_code(tmp_path, folder):
    jobs = jobs_in(tmp_path, allow_code=True)
    http = create_app(jobs, Settings(allow_code=True)).test_client()

    assert post(http, model_name=str(folder))[0] == 202
    assert post(http, model_name="some.module:make(1)")[0] == 202
    assert post(http, model_name="some/model", trust_remote_code=True)[0] == 202
    assert post(http, model_name="/gone")[1]["error"].startswith("there is no /gone")
    jobs.store.close()


def test_what_waited_under_an_operator_who_allowed_code_fails_under_one_who_does_not(tmp_path):
    before = jobs_in(tmp_path, allow_code=True)
    job = before.submit(question("some.module:make")).job
    before.store.close()
    after = jobs_in(tmp_path)
    after.lanes = ()
    after.start()

    assert after.get(job.id).state == "failed"
    assert "does not open files or run functions for callers" in after.get(job.id).error
    after.stop()
    after.store.close()


def question(model="", **options):
    return mm.Question(request=mm.Request(model=model, target=mm.Target(gpu="a10"), **options))


def test_a_folder_here_is_asked_of_a_server_elsewhere_by_its_config(http, folder):
    body = as_body(question(str(folder)))

    assert (body["model_name"], body["config"]) == ("mine", CONFIG)
    assert http.post("/jobs", json=body).status_code == 202


@pytest.mark.parametrize(
    ("model", "called"),
    [("/x/nets.py:make(8)", "nets.py:make(8)"), ("some.module:make", "some.module:make"), ("some/model", "some/model")],
)
def test_the_history_calls_a_model_by_a_short_name(model, called):
    assert new_job(question(model), "cli").model == called


def test_the_history_calls_a_folder_by_its_name_and_needs_it_no_more(folder):
    job = new_job(question(str(folder)), "cli")
    (folder / "config.json").unlink()

    assert job.model == "mine"
    assert job.question.request.config == CONFIG


def test_the_same_config_is_the_same_question_and_another_is_not(folder):
    first, again = (new_job(question(str(folder)), "cli").key for _ in range(2))
    (folder / "config.json").write_text(json.dumps({**CONFIG, "hidden_size": 128}))

    assert first == again
    assert new_job(question(str(folder)), "cli").key != first


def test_code_may_change_so_that_its_answers_are_never_used_again():
    first, again = (new_job(question("/x/nets.py:make"), "cli").key for _ in range(2))

    assert first != again


def test_an_analysis_of_a_function_is_read_back_without_its_file():
    from support.recorded_analyses import recorded

    _, analysis = recorded("bert_fp32")
    own = replace(analysis, request=replace(analysis.request, model="/gone/nets.py:make(8)"))

    assert mm.Analysis.from_dict(json.loads(json.dumps(own.to_dict()))).request == own.request


def test_a_model_of_which_there_are_no_jobs_is_a_slip_or_an_empty_list(http):
    assert http.get("/jobs", query_string={"model": "some/model"}).json["jobs"] == []
    assert http.get("/jobs", query_string={"model": "llama-2-7b"}).json["jobs"] == []
    assert "did you mean bert?" in http.get("/jobs", query_string={"model": "brt"}).json["error"]
