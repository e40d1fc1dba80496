"""Jobs in line: their order, cancelling, limits, and what an earlier server left."""

import threading
from contextlib import closing

import pytest
from prometheus_client.core import CounterMetricFamily

from memorymark.errors import HistoryError
from memorymark.history import Store, new_job
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server.app import create_app
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.live_job import LiveJob
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from support.calls import QUICK, SLOW, is_error
from support.processes import is_running, wait_until


@pytest.fixture(scope="module")
def line(call):
    """Five jobs: one that runs until it is cancelled, and four behind it, of which one is cancelled in line."""
    call.wait_until_idle()
    slow = call.submit(SLOW)
    seen = {"worker": call.busy_pid(slow)}
    ids = [call.submit({**QUICK, "seq_len": tokens}) for tokens in (24, 24, 32, 40)]
    seen["positions"] = [call.job(job_id)["position"] for job_id in (slow, *ids)]
    seen["queue"] = call.health()["queue"]
    seen["cancelled in line"] = call.cancel(ids[3])
    seen["cancelled at work"] = call.cancel(slow)
    seen["worker is gone"] = not is_running(seen["worker"])
    seen["jobs"] = [call.finished(job_id) for job_id in ids]
    return seen


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
    [job] = jobs.store.jobs()

    app.test_client().delete(f"/jobs/{job.id}")
    caller.join()

    assert answers[0].status_code == 409
    said = {"status": "error", "error": "cancelled.", "code": "cancelled", "kind": None, "job_id": job.id}
    assert {name: answers[0].json[name] for name in said} == said


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


def test_a_full_line_takes_no_more_until_there_is_room(idle_jobs):
    client = create_app(idle_jobs(queue_size=1), Settings()).test_client()

    first, second = (client.post("/jobs", json={**QUICK, "seq_len": tokens}) for tokens in (8, 16))
    waited = client.post("/analyze", json=QUICK)
    client.delete(f"/jobs/{first.json['job']['id']}")
    third = client.post("/jobs", json=QUICK)

    assert (first.status_code, second.status_code, waited.status_code, third.status_code) == (202, 429, 429, 202)
    assert int(second.headers["Retry-After"]) > 0
    assert (second.json["status"], second.json["code"]) == ("error", "queue_full")
    assert second.json["error"] == "1 jobs are waiting and no more are taken; ask again later."


def test_a_job_left_for_a_device_that_is_gone_does_not_wait_for_ever(idle_jobs):
    jobs = idle_jobs()
    left = new_job(Question(request=Request(model="bert", target=Target(device="cuda:99"))), "http")
    jobs.store.add(left)

    jobs.start()

    assert jobs.get(left.id).state == "failed"
    assert jobs.status()["queue"]["waiting"] == 0


def test_a_job_that_the_history_does_not_give_back_fails_and_does_not_say_where_that_is(idle_jobs, monkeypatch):
    jobs = idle_jobs()
    job = new_job(Question(request=Request(model="bert", target=Target(gpu="a10"))), "http")
    jobs.store.add(job)

    def refuse(_):
        raise HistoryError("the history /secret/history.db cannot be used.")

    monkeypatch.setattr(LiveJob, "rest", refuse)
    jobs.take_over()

    failed = jobs.store.job(job.id)
    assert (failed.state, failed.error_kind, "secret" in failed.error) == ("failed", "internal", False)


def test_jobs_that_end_while_they_are_counted_break_no_metrics(idle_jobs, monkeypatch):
    jobs = idle_jobs()
    jobs.ended["done"] += 1
    add_metric = CounterMetricFamily.add_metric

    def end_another(*args):
        jobs.ended["failed"] += 1
        add_metric(*args)

    monkeypatch.setattr(CounterMetricFamily, "add_metric", end_another)

    page = create_app(jobs, Settings()).test_client().get("/metrics")
    assert (page.status_code, b'memorymark_jobs_total{state="done"} 1.0' in page.data) == (200, True)


def test_a_question_at_work_in_one_lane_is_not_worked_out_in_another(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/history.db")
    first, second = (Lane(f"prediction-{number}", WarmWorkers(reuse=True)) for number in range(2))
    jobs = Jobs(store, [first, second], queue_size=10, max_seconds=60.0)

    def ask(tokens, **options):
        request = Request(model="bert", seq_len=tokens, target=Target(gpu="a10"))
        return jobs.submit(Question(request=request), **options).job.id

    with closing(store):
        asked, again, fresh, other = ask(16), ask(16), ask(16, fresh=True), ask(32)
        running = jobs.take(first)

        assert running.job.id == asked
        assert [jobs.take(second).job.id for _ in range(2)] == [fresh, other]
        assert jobs.position(again) == 1
        first.running = None
        jobs.finish(running)
        assert jobs.take(first).job.id == again
