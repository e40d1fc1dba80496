"""Past jobs, listed."""

from dataclasses import replace
from urllib.parse import urlencode

import pytest

from memorymark.history import new_job
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server.app import create_app
from memorymark.server.settings import Settings


def test_past_jobs_are_listed_by_model_and_state_and_page_by_page(idle_jobs):
    jobs = idle_jobs()
    client = create_app(jobs, Settings()).test_client()
    models = ["bert", "gpt2", "google-bert/bert-base-uncased", "resnet", "BERT"]
    states = ["done", "failed", "cancelled", "queued", "done"]
    made = []
    for model, state in zip(models, states, strict=True):
        job = replace(new_job(Question(request=Request(model=model)), "cli"), state=state)
        jobs.store.add(job)
        made.insert(0, job.id)  # the latest first

    def listed(query):
        answer = client.get(f"/jobs?{query}").json
        return [made.index(job["id"]) for job in answer["jobs"]], answer["next"]

    assert listed("") == ([0, 1, 2, 3, 4], None)
    assert listed("model=bert") == listed("model=google-bert/bert-base-uncased") == ([0, 2, 4], None)
    assert listed("state=done") == ([0, 4], None)
    assert listed("model=bert&state=cancelled") == ([2], None)
    assert listed("limit=2") == ([0, 1], made[1])
    assert listed(f"limit=2&before={made[1]}") == ([2, 3], made[3])
    assert listed(f"limit=2&before={made[3]}") == ([4], None)
    assert listed(f"limit=1&before={made[1]}&model=bert") == ([2], made[2])
    assert client.get("/jobs?before=000000000000").status_code == 400


def test_past_jobs_are_searched_by_words_wherever_they_stand(idle_jobs):
    jobs = idle_jobs()
    client = create_app(jobs, Settings()).test_client()
    questions = {
        "bert": Question(request=Request(model="bert", target=Target(gpu="a10"))),
        "large": Question(request=Request(model="bert-large", seq_len=64, target=Target(gpu="rtx4090")), advise=True),
        "other": Question(request=Request(model="Some-Org/a_model", recipe=Recipe(precision="bf16", optimizer="sgd"))),
        "all": Question(request=Request(model="gpt2", seq_len=512), all_gpus=True),
    }
    ids = {}
    for name, question in questions.items():
        job = replace(new_job(question, "http"), state="done")
        jobs.store.add(replace(job, state="failed", error="it took Too Long.") if name == "other" else job)
        ids[job.id] = name

    def found(search, more=""):
        answer = client.get("/jobs", query_string=f"{urlencode({'search': search})}{more}").json
        return [ids[job["id"]] for job in answer["jobs"]]

    assert found("") == ["all", "other", "large", "bert"]
    assert found("bert") == ["large", "bert"]
    assert found("BERT  A10") == found("NVIDIA A10") == ["bert"]  # as people call them, not by their ids alone
    assert found("bert large geforce") == found("advice") == found("64") == ["large"]
    assert found("some-org/a_m") == found("bf16 SGD") == found("too long") == found("failed") == ["other"]
    assert found("bf16 adamw") == found("a%model") == found("h100") == []
    assert found(next(iter(ids))) == ["bert"]
    assert found("bert", "&limit=1") == ["large"]
    assert client.get("/jobs", query_string={"search": "x" * 201}).status_code == 400


def test_a_list_shows_no_results_but_headlines(call, answered):
    jobs = call.get("/jobs?state=done").json["jobs"]

    mine = next(job for job in jobs if job["id"] == answered.json["job_id"])
    assert "result" not in mine
    asked = call.get(f"/jobs/{mine['id']}").json["job"]["question"]
    assert mine["current_batch_size"] == asked["current_batch_size"]
    assert mine["recipe_words"].split(", ")[0] == asked["request"]["recipe"]["precision"]
    assert mine["headline"]["max_batch_size"] == answered.json["data"]["max_batch_size"]


@pytest.mark.parametrize(
    ("asked", "kind", "sample", "recipe"),
    [
        ({"model_name": "bert"}, "analysis", None, "fp32, AdamW"),
        ({"model_name": "bert", "seq_len": 64, "precision": "bf16"}, "analysis", "64 tokens", "bf16, AdamW"),
        ({"model_name": "bert", "seq_lens": [64, 128]}, "sweep", "64, 128 tokens", "fp32, AdamW"),
        ({"model_name": "resnet", "all_gpus": True, "image_size": 96}, "comparison", "96 pixels", "fp32, AdamW"),
        ({"model_name": "bert", "advise": True}, "advice", None, "fp32, AdamW"),
    ],
    ids=["usual", "length", "lengths", "all GPUs", "advice"],
)
def test_a_list_tells_what_was_asked(idle_jobs, asked, kind, sample, recipe):
    jobs = idle_jobs()
    client = create_app(jobs, Settings()).test_client()

    client.post("/jobs", json={**asked, "batch_size": 24})

    listed = client.get("/jobs").json["jobs"][0]
    assert (listed["kind"], listed["sample_words"], listed["recipe_words"]) == (kind, sample, recipe)
    assert listed["current_batch_size"] == 24
