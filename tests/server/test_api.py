"""Every address of the service: real connections, real workers, real predictions."""

import json
import re
import threading
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from calls import MEASURED, QUICK, SLOW, is_running, sent_events, wait_until
from prometheus_client.parser import text_string_to_metric_families

from memorymark import engine
from memorymark.catalog import all_gpus, all_models, find_gpu
from memorymark.history import new_job
from memorymark.machine import gpus_here
from memorymark.question import Question
from memorymark.request import Request
from memorymark.server import schemas
from memorymark.server.app import create_app
from memorymark.server.settings import Settings
from memorymark.target import Target
from memorymark.version import __version__

PUBLISHED = """
    model_name device gpu_name gpu_total_gb optimal_batch_size optimal_memory_gb current_batch_size current_memory_gb
    waste_gb waste_percent speedup cost_savings_per_run cost_savings_annual results
    max_batch_size recommended_batch_size current_waste_gb current_waste_percent batch_ratio source breakdown recipe
    margin price
""".split()
ROW = {"batch_size", "memory_mb", "memory_gb", "success", "error", "samples_per_second"}
JSON = {"Accept": "application/json"}
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def answered(call):
    """What POST /analyze says to the quick question."""
    return call.post("/analyze", QUICK)


@pytest.fixture(scope="module")
def line(call):
    """Five jobs: one that runs until it is cancelled, and four behind it, of which one is cancelled in line."""
    slow = call.submit(SLOW)
    wait_until(lambda: worker_of(call, slow) is not None)
    seen = {"worker": worker_of(call, slow)}
    ids = [call.submit({**QUICK, "seq_len": tokens}) for tokens in (24, 24, 32, 40)]
    seen["positions"] = [call.job(job_id)["position"] for job_id in (slow, *ids)]
    seen["queue"] = call.get("/health").json["queue"]
    seen["cancelled in line"] = call.delete(f"/jobs/{ids[3]}").json["job"]
    seen["cancelled at work"] = call.delete(f"/jobs/{slow}").json["job"]
    seen["worker is gone"] = not is_running(seen["worker"])
    seen["jobs"] = [call.finished(job_id) for job_id in ids]
    return seen


def worker_of(call, job_id):
    return next((w["pid"] for w in call.get("/health").json["workers"] if w["job"] == job_id), None)


def without_seconds(document):
    info = {name: value for name, value in document["info"].items() if name != "seconds"}
    return {**document, "seconds": None, "info": info}


def is_error(answer, status):
    document = answer.json
    schemas.Error.model_validate(document)
    assert (answer.status, document["status"]) == (status, "error")
    assert document["error"].endswith(".")
    assert "--" not in document["error"]
    return True


def test_health_says_how_the_service_is(call):
    answer = call.get("/health")

    health = answer.json
    age = datetime.now(timezone.utc) - datetime.fromisoformat(health["timestamp"])
    assert (answer.status, health["status"], health["problem"]) == (200, "ok", None)
    assert health["version"] == __version__
    assert health["gpu_available"] == (health["device"] != "cpu")
    assert (health["gpu_name"] is None) == (health["gpu_memory_total_gb"] is None) == (health["device"] != "cuda")
    assert 0 <= age.total_seconds() < 60
    assert health["queue"] == {"waiting": 0, "running": 0, "limit": 1000}
    assert {"prediction-0", "cpu"} <= {worker["name"] for worker in health["workers"]}


def test_the_catalogs_are_listed(call):
    listed, gpus = call.get("/models").json, call.get("/gpus").json["gpus"]
    models, tasks = listed["models"], {task["id"]: task for task in listed["tasks"]}

    assert models == [entry.to_dict() for entry in all_models()]
    assert all(tasks[model["task"]]["sample_unit"] == model["sample_unit"] for model in models)
    assert tasks["ctc"] == {"id": "ctc", "title": "speech to text, CTC", "sample_unit": "seconds", "sample_size": 5}
    assert [gpu["id"] for gpu in gpus] == [entry.id for entry in all_gpus()]
    assert {gpu["id"] for gpu in gpus if gpu["here"]} == gpus_here()


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
def test_a_body_without_a_model_is_told_which_models_there_are(call, path, body):
    answer = call("POST", path, body, Content_Type="application/json")

    assert is_error(answer, 400)
    assert all(entry.id in answer.json["error"] for entry in all_models())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seq_len": 9999}, "bert takes 1 to 512 tokens; seq_len 9999 is outside of that."),
        ({"image_size": 224}, "image_size does not apply to bert"),
        ({"channels_last": True}, "channels_last is for image models"),
        ({"gpu": "a100"}, "unknown GPU 'a100': did you mean a100-40gb or a100-80gb?"),
        ({"gpu": "a10", "device": "cpu"}, "gpu a10 asks for a prediction, device cpu for a run here"),
        ({"gpu": "a10", "memory_gib": 99}, "memory_gib asks for 99.00 GiB but NVIDIA A10 has"),
        ({"memory_gib": 9999}, "no GPU of the catalog has the 9,999.00 GiB of memory_gib"),
        ({"device": "cuda:99"}, "there is no cuda:99 here, only"),
        ({"device": "tpu"}, "device: "),
        ({"optimizer": "adafactor", "fused": True}, "adafactor has no fused version"),
        ({"precision": "int8"}, "precision: "),
        ({"batch_size": 0}, "batch_size: "),
        ({"batch_size": "16"}, "batch_size: "),
        ({"batch_size": True}, "batch_size: "),
        ({"batch_size": 16.5}, "batch_size: "),
        ({"margin": 1}, "margin: "),
        ({"time_limit": 0}, "time_limit: "),
        ({"seq_length": 16}, "there is no field 'seq_length'"),
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
    assert answer.json == {
        "status": "error",
        "error": "something went wrong inside the service; its log says what.",
    }
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


def test_the_same_question_is_answered_from_the_history_unless_a_fresh_answer_is_wanted(call, answered):
    before = metric(call, "memorymark_answers_reused_total")

    again, waited = call.post("/jobs", QUICK), call.post("/analyze", QUICK)
    fresh = call.post("/jobs", {**QUICK, "fresh": True})

    assert (again.status, again.json["reused"]) == (200, True)
    assert again.json["job"]["id"] == waited.json["job_id"] == answered.json["job_id"]
    assert (again.json["job"]["result"], waited.json) == (answered.json["data"], answered.json)
    assert metric(call, "memorymark_answers_reused_total") == before + 2
    assert (fresh.status, fresh.json["reused"]) == (202, False)
    assert fresh.json["job"]["id"] != answered.json["job_id"]
    assert call.finished(fresh.json["job"]["id"])["state"] == "done"


@pytest.mark.skipif(bool(gpus_here()), reason="there is a GPU here")
def test_without_a_gpu_here_the_default_one_is_predicted_for(call, answered):
    plain = {name: value for name, value in QUICK.items() if name != "gpu"}

    answer = call.post("/jobs", plain)

    assert (answer.json["reused"], answer.json["job"]["target"]) == (True, "a10")
    assert without_seconds(answer.json["job"]["result"]) == without_seconds(answered.json["data"])


def test_a_stream_and_polling_tell_the_same_from_any_point_on(call):
    job_id = call.submit({**QUICK, "fresh": True})

    stream = call.get(f"/jobs/{job_id}/events", **STREAM)
    polled = call.get(f"/jobs/{job_id}/events", **JSON)

    events = polled.json["events"]
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert stream.body.startswith(b"retry: 1000\n\n")
    assert (polled.status, polled.json["state"]) == (200, "done")
    assert sent_events(stream.body) == events
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert [event["data"]["state"] for event in events if event["event"] == "state"] == ["queued", "running"]
    assert {event["event"] for event in events[2:-1]} == {"stage", "trial"}
    assert events[-1]["event"] == "result"
    assert events[-1]["data"] == call.job(job_id)["result"]
    for after in (1, len(events) // 2, len(events) - 1):
        assert call.events(job_id, after) == events[after:]
        assert sent_events(call.get(f"/jobs/{job_id}/events?after={after}", **STREAM).body) == events[after:]
        resumed = call.get(f"/jobs/{job_id}/events", Last_Event_ID=str(after), **STREAM)
        assert sent_events(resumed.body) == events[after:]


def test_who_has_seen_all_of_a_finished_job_is_told_not_to_come_again(call, answered):
    path = f"/jobs/{answered.json['job_id']}/events"
    last = call.events(answered.json["job_id"])[-1]["id"]

    stream = call.get(path, Last_Event_ID=str(last), **STREAM)

    assert (stream.status, stream.body) == (204, b"")
    assert call.get(f"{path}?after={last}", **JSON).json["events"] == []
    assert call.get(f"{path}?after={last + 7}", **STREAM).status == 204


@pytest.mark.parametrize("given", ["", "x", "-1", "1.5", "9" * 40, "٣"])
def test_a_last_event_id_that_is_none_counts_as_the_beginning(call, answered, given):
    path = f"/jobs/{answered.json['job_id']}/events"

    stream = call("GET", path, Last_Event_ID=given.encode(), **STREAM)

    assert sent_events(stream.body) == call.events(answered.json["job_id"])


def test_a_stream_that_ends_early_is_resumed_without_loss_or_repetition(service, call):
    brief = create_app(service.jobs, Settings(stream_seconds=0.01, heartbeat_seconds=0.01)).test_client()
    job_id = call.submit({**QUICK, "fresh": True})
    streams, events = 0, []

    while not events or events[-1]["event"] != "result":
        last = str(events[-1]["id"] if events else 0)
        events += sent_events(brief.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": last, **STREAM}).data)
        streams += 1

    assert streams > 1
    assert events == call.events(job_id)


def test_a_stream_in_which_nothing_happens_has_a_heartbeat_and_ends_by_itself(idle_jobs):
    client = create_app(idle_jobs(), Settings(stream_seconds=0.1, heartbeat_seconds=0.01)).test_client()
    job_id = client.post("/jobs", json=QUICK).json["job"]["id"]

    stream = client.get(f"/jobs/{job_id}/events", headers=STREAM).data

    assert [event["event"] for event in sent_events(stream)] == ["state"]
    assert stream.count(b": still here\n\n") >= 2


def test_too_many_watchers_are_refused_until_one_is_gone(idle_jobs):
    client = create_app(idle_jobs(), Settings(max_watchers=1)).test_client()
    path = f"/jobs/{client.post('/jobs', json=QUICK).json['job']['id']}/events"

    first = client.get(path, headers=STREAM)
    second, polled = client.get(path, headers=STREAM), client.get(path, headers=JSON)
    watchers = client.get("/metrics").text
    first.close()
    third = client.get(path, headers=STREAM)
    third.close()

    assert (first.status_code, second.status_code, third.status_code) == (200, 429, 200)
    assert "Retry-After" in second.headers
    assert "Accept: application/json" in second.json["error"]
    assert polled.status_code == 200
    assert "memorymark_watchers 1.0" in watchers
    assert "memorymark_watchers 0.0" in client.get("/metrics").text


def test_jobs_wait_in_the_order_of_their_arrival(line):
    assert line["positions"] == [None, 1, 2, 3, 4]
    assert (line["queue"]["waiting"], line["queue"]["running"]) == (4, 1)


def test_jobs_run_in_the_order_of_their_arrival(line):
    started = [job["started_at"] for job in line["jobs"][:3]]
    finished = [job["finished_at"] for job in line["jobs"][:3]]

    assert [job["state"] for job in line["jobs"]] == ["done", "done", "done", "cancelled"]
    assert started == sorted(started)
    assert finished == sorted(finished)


def test_a_question_that_waits_twice_is_worked_out_once(line, call):
    first, again = line["jobs"][:2]

    events = call.events(again["id"])
    assert again["id"] != first["id"]
    assert again["result"] == first["result"]
    assert not any(event["event"] == "trial" for event in events)
    assert any(first["id"] in event["data"].get("message", "") for event in events)


def test_a_job_cancelled_in_line_never_runs(line, call):
    job = line["cancelled in line"]

    assert (job["state"], job["started_at"], job["result"], job["position"]) == ("cancelled", None, None, None)
    assert [event["event"] for event in call.events(job["id"])] == ["state", "error"]
    assert call.job(job["id"]) == job


def test_a_job_cancelled_at_work_is_over_and_its_worker_gone(line, call):
    job = line["cancelled at work"]

    last = call.events(job["id"])[-1]
    assert (job["state"], job["error"], job["error_kind"]) == ("cancelled", "cancelled.", None)
    assert line["worker is gone"]
    assert (last["event"], last["data"]["state"]) == ("error", "cancelled")
    assert not is_running(line["worker"])


def test_to_cancel_a_finished_job_changes_nothing(line, call):
    job = line["jobs"][0]

    answer = call.delete(f"/jobs/{job['id']}")

    assert (answer.status, answer.json["job"]) == (200, job)
    assert call.job(job["id"]) == job


def test_who_waits_for_a_job_that_is_cancelled_is_told(idle_jobs):
    jobs = idle_jobs()
    app, answers = create_app(jobs, Settings()), []
    caller = threading.Thread(target=lambda: answers.append(app.test_client().post("/analyze", json=QUICK)))
    caller.start()
    wait_until(lambda: jobs.store.count() == 1)
    [(job, _)] = jobs.store.jobs()

    app.test_client().delete(f"/jobs/{job.id}")
    caller.join()

    assert answers[0].status_code == 409
    assert answers[0].json == {"status": "error", "error": "cancelled.", "kind": None, "job_id": job.id}


def test_who_cannot_wait_longer_is_told_where_the_answer_will_be(idle_jobs):
    jobs = idle_jobs()
    answer = create_app(jobs, Settings(job_seconds=0.1)).test_client().post("/analyze", json=QUICK)

    assert answer.status_code == 504
    assert jobs.get(answer.json["job_id"]).state == "queued"


def test_a_job_that_takes_longer_than_its_limit_fails(call):
    answer = call.post("/analyze", {"model_name": "gpt2", "gpu": "t4", "time_limit": 0.2})

    job = call.job(answer.json["job_id"])
    assert is_error(answer, 504)
    assert "longer than its limit of 0.2 s" in answer.json["error"]
    assert (job["state"], job["error_kind"], job["result"]) == ("failed", "time_limit", None)


def test_all_gpus_are_compared(call):
    asked = call.post("/jobs", {"model_name": "bert", "small": True, "seq_len": 16, "all_gpus": True})

    job = call.finished(asked.json["job"]["id"])
    answer = call.get(f"/jobs/{job['id']}")
    schemas.JobAnswer.model_validate_json(answer.body, strict=True)
    assert (job["state"], job["target"]) == ("done", "all")
    assert {row["gpu"] for row in job["result"]["gpus"]} == {entry.id for entry in all_gpus()}
    assert job["headline"]["fastest"] == job["result"]["fastest"] in job["result"]["analyses"]


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
    assert "memory_gib" in answer.json["error"]
    assert (job["state"], job["error_kind"], job["error"]) == ("failed", "does_not_fit", answer.json["error"])


def test_the_last_event_of_a_failed_job_says_what_the_job_says(call):
    job_id = call.post("/analyze", {**QUICK, "memory_gib": 0.01}).json["job_id"]

    last = call.events(job_id)[-1]

    assert (last["event"], last["data"]["state"], last["data"]["error_kind"]) == ("error", "failed", "does_not_fit")
    assert last["data"]["error"] == call.job(job_id)["error"]


def test_what_cannot_be_predicted_is_said_in_terms_of_the_interface(call):
    answer = call.post("/analyze", {**QUICK, "compile": True})

    assert is_error(answer, 422)
    assert answer.json["kind"] == "cannot_predict"


def test_a_full_line_takes_no_more_until_there_is_room(idle_jobs):
    client = create_app(idle_jobs(queue_size=1), Settings()).test_client()

    first, second = (client.post("/jobs", json={**QUICK, "seq_len": tokens}) for tokens in (8, 16))
    waited = client.post("/analyze", json=QUICK)
    client.delete(f"/jobs/{first.json['job']['id']}")
    third = client.post("/jobs", json=QUICK)

    assert (first.status_code, second.status_code, waited.status_code, third.status_code) == (202, 429, 429, 202)
    assert int(second.headers["Retry-After"]) > 0
    assert second.json == {"status": "error", "error": "1 jobs are waiting and no more are taken; ask again later."}


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


def test_a_job_left_for_a_device_that_is_gone_does_not_wait_for_ever(idle_jobs):
    jobs = idle_jobs()
    left = new_job(Question(request=Request(model="bert", target=Target(device="cuda:99"))), "http")
    jobs.store.add(left)

    jobs.start()

    assert jobs.get(left.id).state == "failed"
    assert jobs.status()["queue"]["waiting"] == 0


def test_the_front_page_tells_programs_what_there_is(call):
    page = call.get("/").json

    assert (page["name"], page["version"]) == ("MemoryMark", __version__)
    assert {"POST /analyze", "POST /jobs", "GET /jobs/{job_id}/events", "GET /health"} <= set(page["endpoints"])
    assert call.get(page["openapi"]).json["info"]["title"] == "MemoryMark"
    assert call.get("/", Accept="application/json").json == page


def test_the_front_page_shows_a_browser_something_to_look_at(call):
    answer = call.get("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")

    if answer.status == 302:
        answer = call.get(answer.headers["Location"], Accept="text/html")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")


def test_the_documentation_works_without_the_internet(call):
    page = call.get("/openapi/swagger").body.decode()

    loaded = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert any(name.endswith(".js") for name in loaded)
    assert any(name.endswith(".css") for name in loaded)
    for name in loaded:
        assert not re.match(r"(https?:)?//", name)
        assert call.get(f"/openapi/{name}" if not name.startswith("/") else name).status == 200
    assert "http" not in "".join(re.findall(r"url:\s*[\"']([^\"']+)", page))


def metric(call, name, **labels):
    page = call.get("/metrics").body.decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())


def test_the_metrics_count_calls_and_jobs(call, answered):
    name = "memorymark_request_seconds_count"
    before = [
        metric(call, name, endpoint="health", status="200"),
        metric(call, name, endpoint="show", status="404"),
        metric(call, "memorymark_jobs_total", state="done"),
    ]

    for _ in range(3):
        call.get("/health")
    call.get("/jobs/000000000000")
    assert call.post("/analyze", {**QUICK, "fresh": True}).status == 200

    assert metric(call, name, endpoint="health", status="200") == before[0] + 3
    assert metric(call, name, endpoint="show", status="404") == before[1] + 1
    assert metric(call, "memorymark_jobs_total", state="done") == before[2] + 1
    assert metric(call, "memorymark_jobs_waiting") == metric(call, "memorymark_jobs_running") == 0
