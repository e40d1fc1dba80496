"""Questions over HTTP and their answers: real connections, real workers, real predictions."""

import json
import re

import pytest

from memorymark import answer as engine
from memorymark.catalog import all_gpus, all_models, find_gpu
from memorymark.devices.machine import gpus_here
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server import schemas
from memorymark.server.app import create_app
from memorymark.server.settings import Settings
from support.calls import MEASURED, QUICK, is_error

PUBLISHED = """
    model_name device gpu_name gpu_total_gb optimal_batch_size optimal_memory_gb current_batch_size current_memory_gb
    waste_gb waste_percent speedup cost_savings_per_run cost_savings_annual results
    max_batch_size recommended_batch_size current_waste_gb current_waste_percent batch_ratio source breakdown recipe
    margin price
""".split()
ROW = {"batch_size", "memory_mb", "memory_gb", "success", "error", "samples_per_second"}  # as published
ROW |= {"step_seconds", "tokens_per_batch", "tokens_per_second"}


def without_seconds(document):
    info = {name: value for name, value in document["info"].items() if name != "seconds"}
    return {**document, "seconds": None, "info": info}


def test_an_answer_has_every_published_field(answered):
    data = answered.json["data"]

    assert (answered.status, answered.json["status"]) == (200, "success")
    assert set(PUBLISHED) <= data.keys()
    assert (data["model_name"], data["source"], data["gpu_name"]) == ("bert", "predicted", "NVIDIA A10")
    assert data["gpu_total_gb"] == find_gpu("a10").torch_memory_bytes / 2**30
    assert data["optimal_batch_size"] == data["max_batch_size"] > data["current_batch_size"] == 16
    assert data["batch_ratio"] == data["max_batch_size"] / 16
    assert all(row.keys() == ROW for row in data["results"])
    assert {row["success"] for row in data["results"]} == {True, False}
    assert data["price"]["usd_per_hour"] == find_gpu("a10").price.usd_per_hour


def test_an_answer_keeps_to_its_schema(answered):
    schemas.AnalyzeAnswer.model_validate_json(answered.body, strict=True)


def test_an_answer_is_what_the_engine_gives_for_the_same_question(answered):
    request = Request(model="bert", small=True, seq_len=16, target=Target(gpu="a10"))

    here = engine.answer(Question(request=request)).to_dict()

    assert without_seconds(answered.json["data"]) == without_seconds(json.loads(json.dumps(here)))


def test_a_measured_job_is_run_on_the_device(call):
    job = call.finished(call.submit(MEASURED))

    assert (job["state"], job["target"]) == ("done", "cpu")
    assert (job["result"]["source"], job["result"]["device"]) == ("measured", "cpu")
    assert (job["result"]["max_batch_size"], job["result"]["limited_by"]) == (2, "caller")


@pytest.mark.parametrize("path", ["/analyze", "/advise", "/jobs"])
@pytest.mark.parametrize("body", [None, "", "{", "[]", '"bert"', "null", "{}", '{"model_name": "brt"}'])
def test_a_body_without_a_model_is_told_a_few_models_and_where_all_are(call, path, body):
    answer = call("POST", path, body, Content_Type="application/json")

    assert is_error(answer, 400)
    named = [entry.id for entry in all_models() if entry.id in answer.json["error"].replace(",", " ").split()]
    assert named or "did you mean bert?" in answer.json["error"]
    assert len(named) <= 3
    assert "GET /models lists all" in answer.json["error"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seq_len": 9999}, "bert takes 1 to 512 tokens; seq_len 9999 is out of range."),
        ({"image_size": 224}, "image_size does not apply to bert"),
        ({"channels_last": True}, "channels_last is for samples in pixels"),
        ({"gpu": "a100"}, "unknown GPU 'a100': did you mean a100-40gb or a100-80gb?"),
        ({"gpu": "a10", "device": "cpu"}, "gpu a10 asks for a prediction, device cpu for a local run"),
        ({"gpu": "a10", "memory_gib": 99}, "memory_gib asks for 99.00 GiB but NVIDIA A10 has"),
        ({"memory_gib": 9999}, "no GPU in the catalog has the 9,999.00 GiB of memory_gib"),
        ({"device": "cuda:99"}, "there is no cuda:99 here, only"),
        ({"device": "tpu"}, "device: "),
        ({"optimizer": "adafactor", "fused": True}, "fused needs optimizer adamw, adam or sgd, not adafactor"),
        ({"precision": "int8"}, "precision: "),
        ({"batch_size": 0}, "batch_size: "),
        ({"batch_size": "16"}, "batch_size: "),
        ({"batch_size": True}, "batch_size: "),
        ({"batch_size": 16.5}, "batch_size: "),
        ({"margin": 1}, "margin: "),
        ({"time_limit": 0}, "time_limit: "),
        ({"seq_length": 16}, "there is no field 'seq_length': did you mean seq_len or seq_lens?"),
        ({"model_name": 7}, "model_name: "),
        ({"model_name": "bert" * 100}, "model_name: "),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_field_that_is_wrong_is_named_as_the_interface_calls_it(call, fields, said):
    answer = call.post("/jobs", {"model_name": "bert", **fields})

    assert is_error(answer, 400)
    assert said in answer.json["error"]


def test_numbers_that_are_no_numbers_are_refused(call):
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        assert is_error(call.post("/jobs", f'{{"model_name": "bert", "price_per_hour": {number}}}'), 400)


@pytest.mark.parametrize("body", ["[" * 30_000, '{"model_name":' * 4_000], ids=["lists", "objects"])
def test_a_body_that_is_nested_too_deeply_is_refused(call, body):
    assert is_error(call.post("/jobs", body), 400)


@pytest.mark.parametrize("query", ["model=brt", "state=lost", "limit=0", "limit=501", "limit=x", "before=1", "x=1"])
def test_a_query_that_is_wrong_is_refused(call, query):
    assert is_error(call.get(f"/jobs?{query}"), 400)


def test_what_is_not_there_or_not_taken_is_said_in_the_same_shape(call):
    wrong_method = call("PATCH", "/jobs")

    assert is_error(call.get("/nowhere"), 404)
    assert is_error(call.get("/jobs/000000000000"), 404)
    assert is_error(call.get("/jobs/000000000000/events"), 404)
    assert is_error(call.delete("/jobs/000000000000"), 404)
    assert is_error(wrong_method, 405)
    assert {"GET", "POST"} <= set(re.split(", *", wrong_method.headers["Allow"]))
    assert is_error(call("GET", "/analyze"), 405)
    assert is_error(call("POST", "/jobs", "model_name=bert", Content_Type="text/plain"), 415)
    assert is_error(call.post("/jobs", {"model_name": "x" * 400_000}), 413)


def test_an_unexpected_fault_is_logged_and_tells_callers_nothing(idle_jobs, monkeypatch, caplog):
    jobs = idle_jobs()

    def broken(**_):
        raise ZeroDivisionError("/a/secret/path")

    monkeypatch.setattr(jobs.store, "jobs", broken)
    answer = create_app(jobs, Settings()).test_client().get("/jobs")

    assert answer.status_code == 500
    assert (answer.json["status"], answer.json["code"]) == ("error", "internal")
    assert answer.json["error"] == "something went wrong inside the service; its log says what."
    assert "secret" not in answer.text
    assert "ZeroDivisionError: /a/secret/path" in caplog.text


def test_a_new_job_says_where_to_find_it_and_ends_with_the_answer(call):
    asked = call.post("/jobs", {**QUICK, "seq_len": 8})

    job = asked.json["job"]
    found = call.get(asked.headers["Location"])
    ended = call.finished(job["id"])
    assert (asked.status, asked.json["reused"], asked.headers["Location"]) == (202, False, f"/jobs/{job['id']}")
    assert job["state"] in ("queued", "running")
    assert (found.status, found.json["job"]["id"]) == (200, job["id"])
    assert (ended["state"], ended["error"], ended["position"]) == ("done", None, None)
    assert ended["created_at"] <= ended["started_at"] <= ended["finished_at"]
    assert ended["headline"]["max_batch_size"] == ended["result"]["max_batch_size"]
    assert ended["question"]["request"]["seq_len"] == 8


def test_the_same_question_is_answered_from_the_history_unless_a_fresh_answer_is_wanted(call):
    question = {**QUICK, "hours_per_run": 7}  # which no other test asks
    answered = call.post("/analyze", question)
    before = call.metric("memorymark_answers_reused_total")

    again, waited = call.post("/jobs", question), call.post("/analyze", question)
    fresh = call.post("/jobs", {**question, "fresh": True})

    assert (again.status, again.json["reused"]) == (200, True)
    assert again.json["job"]["id"] == waited.json["job_id"] == answered.json["job_id"]
    assert (again.json["job"]["result"], waited.json) == (answered.json["data"], answered.json)
    assert call.metric("memorymark_answers_reused_total") == before + 2
    assert (fresh.status, fresh.json["reused"]) == (202, False)
    assert fresh.json["job"]["id"] != answered.json["job_id"]
    assert call.finished(fresh.json["job"]["id"])["state"] == "done"


@pytest.mark.skipif(bool(gpus_here()), reason="there is a GPU here")
def test_without_a_gpu_here_the_default_one_is_predicted_for(call, answered):
    plain = {name: value for name, value in QUICK.items() if name != "gpu"}

    answer = call.post("/jobs", plain)

    assert (answer.json["reused"], answer.json["job"]["target"]) == (True, "a10")
    assert without_seconds(answer.json["job"]["result"]) == without_seconds(answered.json["data"])


def test_all_gpus_are_compared(call):
    asked = call.post("/jobs", {"model_name": "bert", "small": True, "seq_len": 16, "max_batch": 16, "all_gpus": True})

    job = call.finished(asked.json["job"]["id"])
    answer = call.get(f"/jobs/{job['id']}")
    schemas.JobAnswer.model_validate_json(answer.body, strict=True)
    assert (job["state"], job["target"]) == ("done", "all")
    assert {row["gpu"] for row in job["result"]["gpus"]} == {entry.id for entry in all_gpus()}
    assert job["headline"]["fastest"] == job["result"]["fastest"]
    assert job["headline"]["fastest_candidates"] == job["result"]["fastest_candidates"]
    assert job["result"]["fastest_candidates"][0] == job["result"]["gpus"][0]["gpu"]


def test_some_gpus_are_compared_at_the_callers_prices(call):
    own = {"name": "Lab GPU", "memory_mib": 24576, "compute_capability": "8.6", "multiprocessors": 82,
           "boost_clock_mhz": 1700, "bandwidth_gb_per_second": 900}  # fmt: skip
    some = {"compare_gpus": ["L4", "rtx3090"], "prices": {"rtx3090": 0.2, "Lab GPU": 0.1}, "gpu_facts": own}
    asked = call.post("/jobs", {"model_name": "bert", "small": True, "seq_len": 16, "max_batch": 16, **some})

    job = call.finished(asked.json["job"]["id"])
    rows = {row["gpu"]: row for row in job["result"]["gpus"]}
    assert (job["state"], job["kind"], job["target"]) == ("done", "comparison", "l4, rtx3090")
    assert job["options"]["compare_gpus"] == ["l4", "rtx3090"]
    assert rows.keys() == {"l4", "rtx3090", "labgpu"}
    assert rows["rtx3090"]["price"]["provider"] == rows["labgpu"]["price"]["provider"] == "as given"
    assert rows["l4"]["price"]["provider"] != "as given"
    assert rows["labgpu"]["usd_per_million_samples"] < rows["rtx3090"]["usd_per_million_samples"]


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ({"compare_gpus": ["l4", "rtx309"]}, "compare_gpus", "unknown GPU 'rtx309': did you mean rtx3090"),
        ({"prices": {"l4": "cheap"}}, "prices", "number"),
        ({"prices": {"l5": 1}}, "prices", "unknown GPU 'l5'"),
        ({"compare_gpus": ["l4"], "gpu": "a10"}, "compare_gpus", "several GPUs are predicted for"),
        ({"gpu_facts": {"name": "x"}}, "gpu", "lacks memory_mib"),
        ({"gpu": "my_gpu.json"}, "gpu", "unknown GPU 'my_gpu.json'"),
    ],
    ids=str,
)
def test_gpus_and_prices_that_make_no_sense_are_refused(call, options, field, said):
    answer = call.post("/jobs", {"model_name": "bert", **options})

    assert (answer.status, answer.json["field"]) == (400, field)
    assert said in answer.json["error"]


def test_advice_is_an_answer_that_is_found_again(call):
    answer = call.post("/advise", QUICK)
    document = answer.json["data"]

    again = call.post("/jobs", {**QUICK, "advise": True})

    schemas.AdviseAnswer.model_validate_json(answer.body, strict=True)
    assert document["worth_changing"]
    assert document["options"][0]["gain"] == document["speedup"] > 1
    assert "torch.autocast" in document["options"][0]["code"]["pytorch"]
    assert (again.json["reused"], again.json["job"]["id"]) == (True, answer.json["job_id"])
    assert again.json["job"]["result"] == document
    stages = [event["data"]["stage"] for event in call.events(answer.json["job_id"]) if event["event"] == "stage"]
    assert set(stages) == {"advise"}


def test_what_does_not_fit_is_an_answer_of_its_own(call):
    answer = call.post("/analyze", {**QUICK, "memory_gib": 0.01})

    job = call.job(answer.json["job_id"])
    assert is_error(answer, 422)
    assert answer.json["kind"] == "does_not_fit"
    assert (job["state"], job["error_kind"], job["error"]) == ("failed", "does_not_fit", answer.json["error"])
    assert job["suggestions"] == answer.json["suggestions"] == job["problem"]["suggestions"]
    assert (answer.json["code"], answer.json["shortfall_bytes"]) == ("does_not_fit", job["problem"]["shortfall_bytes"])
    assert all(one["label"] in answer.json["error"] or one["without_cap"] for one in job["suggestions"])


def test_a_suggestion_asks_for_what_fits(call):
    asked = {**QUICK, "memory_gib": 0.01}
    suggestions = call.post("/analyze", asked).json["suggestions"]

    assert suggestions[-1]["change"] == {"memory_gib": None}
    answer = call.post("/analyze", {**asked, **suggestions[-1]["change"]})
    assert answer.json["data"]["max_batch_size"] == suggestions[-1]["max_batch_size"]


def test_a_result_is_a_page_to_keep(call, answered):
    report = call.get(f"/jobs/{answered.json['job_id']}/report")

    assert report.status == 200
    assert report.headers["Content-Type"] == "text/html; charset=utf-8"
    assert report.headers["Content-Disposition"].startswith("attachment")
    assert f"batch {answered.json['data']['max_batch_size']}".encode() in report.body
    assert is_error(call.get(f"/jobs/{answered.json['job_id']}/report?part=a10"), 404)


def test_what_cannot_be_predicted_is_said_in_terms_of_the_interface(call):
    answer = call.post("/analyze", {**QUICK, "compile": True})

    assert is_error(answer, 422)
    assert answer.json["kind"] == "cannot_predict"
