"""The events of a job: as a stream and by polling, from any point on."""

import pytest

from memorymark.server.app import create_app
from memorymark.server.settings import Settings
from support.calls import QUICK, sent_events

JSON = {"Accept": "application/json"}
STREAM = {"Accept": "text/event-stream"}


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


def test_the_last_event_of_a_failed_job_says_what_the_job_says(call):
    job_id = call.post("/analyze", {**QUICK, "memory_gib": 0.01}).json["job_id"]

    last = call.events(job_id)[-1]

    assert (last["event"], last["data"]["state"], last["data"]["error_kind"]) == ("error", "failed", "does_not_fit")
    assert last["data"]["error"] == call.job(job_id)["error"]
