"""Few clients must not deny the service to all: those who wait, hang up, send half a request or read nothing."""

import json
import re
import resource
import socket
import threading
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from memorymark.errors import StoppedError
from memorymark.history import new_job
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server import front as front_module
from memorymark.server import job_routes, schemas
from memorymark.server.connections import Connections
from memorymark.server.live_job import ended
from support.calls import QUICK, TOKEN, is_error, sent_events
from support.processes import wait_until
from support.recorded_analyses import recorded

# Half of the time after which a server of before noticed a hang-up, and far more than it may take.
SOON_SECONDS = 10


def sent(port, text):
    """A connection on which this was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=SOON_SECONDS)
    connection.sendall(text if isinstance(text, bytes) else text.encode())
    return connection


def post(path, body, padding=""):
    text = json.dumps(body) + padding
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}"
    )


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


def status_of(connection):
    return int(connection.recv(4096).split()[1])


def is_silent(connection):
    """Whether nothing comes for a while."""
    connection.settimeout(0.3)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    return False


def unknown(number):
    return {**QUICK, "seq_len": 17 + number}


def known(jobs):
    """A question that the history has answered."""
    _, analysis = recorded("bert_fp32")
    job = new_job(Question(request=Request(model="bert", target=Target(gpu="a10"))), "http")
    jobs.store.add(replace(job, state="done", result=analysis.to_dict(), started_at=1.0, finished_at=2.0))
    return {"model_name": "bert", "gpu": "a10"}


def test_known_answers_do_not_wait_for_those_who_wait(served, idle_jobs):
    jobs = idle_jobs()
    question = known(jobs)
    with served(jobs) as call, ExitStack() as waiting:
        for number in range(65):
            waiting.enter_context(sent(call.port, post("/analyze", unknown(number))))
        wait_until(lambda: call.health()["queue"]["waiting"] == 65)

        assert call.post("/analyze", question).status == 200
        assert call.post("/jobs", question).json["reused"]


def test_who_hangs_up_while_waiting_makes_room_and_the_job_goes_on(served, idle_jobs, monkeypatch):
    monkeypatch.setattr(front_module, "MOST_WAITING", 2)
    jobs = idle_jobs()
    with served(jobs) as call:
        in_line = lambda: call.health()["queue"]["waiting"]  # noqa: E731
        for path in ("/analyze", "/advise"):
            before = in_line()
            with sent(call.port, post(path, unknown(1))), sent(call.port, post(path, unknown(2))):
                wait_until(lambda before=before: in_line() == before + 2)
                assert is_error(call.post("/analyze", unknown(3)), 429)

            def has_room(path=path):
                with sent(call.port, post(path, unknown(4))) as third:
                    return is_silent(third)

            wait_until(has_room, SOON_SECONDS)
            assert in_line() > before + 2


def test_who_sends_more_while_waiting_and_hangs_up_makes_room_too(served, monkeypatch):
    monkeypatch.setattr(front_module, "MOST_WAITING", 1)
    with served() as call:
        with sent(call.port, post("/analyze", unknown(1)) + get("/health") + post("/jobs", unknown(2))[:-9]) as first:
            assert is_silent(first)
            assert is_error(call.post("/analyze", unknown(3)), 429)

        def has_room():
            with sent(call.port, post("/analyze", unknown(4))) as second:
                return is_silent(second)

        wait_until(has_room, SOON_SECONDS)


def test_calls_that_are_sent_ahead_are_answered_in_their_order(served):
    with served() as call:
        ahead = get("/health") + post("/jobs", unknown(1)) + post("/jobs", {"model_name": "nonsense"}) + get("/nowhere")
        with sent(call.port, ahead[:-20]) as connection:
            connection.sendall(
                ahead[-20:].encode() + get("/models").encode().replace(b"Accept", b"Connection: close\r\nAccept")
            )
            said = b""
            while part := connection.recv(65536):
                said += part

        assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"202", b"400", b"404", b"200"]


def test_a_waiting_caller_gets_the_answer_as_soon_as_it_is_there(served, idle_jobs):
    jobs = idle_jobs()
    with served(jobs) as call, sent(call.port, post("/analyze", QUICK)) as waiting:
        wait_until(lambda: jobs.store.count() == 1)
        assert is_silent(waiting)
        [job] = call.get("/jobs").json["jobs"]

        jobs.live(job["id"]).tell("result", {}, state="done", result={"found": 1}, finished_at=1.0)

        waiting.settimeout(SOON_SECONDS)
        answer = waiting.recv(65536)
        assert (answer.split()[1], b'"data":{"found":1}' in answer) == (b"200", True)


def test_watchers_who_hang_up_make_room_at_once(served, monkeypatch):
    with served(max_watchers=3, heartbeat_seconds=600.0, stream_seconds=600.0) as call:
        path = f"/jobs/{call.submit(QUICK)}/events"
        with ExitStack() as watchers:
            for _ in range(3):
                assert status_of(watchers.enter_context(sent(call.port, get(path)))) == 200
            assert call.metric("memorymark_watchers") == 3
            assert is_error(call.get(path, Accept="text/event-stream"), 429)

        def is_welcome():
            with sent(call.port, get(path)) as watcher:
                return status_of(watcher) == 200

        wait_until(is_welcome, SOON_SECONDS)
        wait_until(lambda: call.metric("memorymark_watchers") == 0, SOON_SECONDS)


def test_a_watcher_hears_each_event_when_it_happens(served, idle_jobs):
    jobs = idle_jobs()
    with served(jobs, heartbeat_seconds=600.0) as call:
        job_id = call.submit(QUICK)
        with sent(call.port, get(f"/jobs/{job_id}/events")) as watcher, closing(watcher.makefile("rb")) as lines:
            heard = [next(line for line in lines if line.startswith(b"data: "))]
            jobs.live(job_id).tell("state", {"state": "running"}, state="running")
            heard.append(next(line for line in lines if line.startswith(b"data: ")))
            jobs.live(job_id).tell("result", {}, state="done", result={"found": 1}, finished_at=1.0)
            heard.append(next(line for line in lines if line.startswith(b"data: ")))

        events = [json.loads(line.removeprefix(b"data: ")) for line in heard]
        assert [event["id"] for event in events] == [1, 2, 3]
        assert events[-1]["data"] == {"found": 1}
        assert sent_events(call.get(f"/jobs/{job_id}/events", Accept="text/event-stream").body) == events


def test_only_the_head_of_a_stream_is_sent_where_no_more_is_wanted(served):
    with served(max_watchers=1) as call:
        path = f"/jobs/{call.submit(QUICK)}/events"

        for _ in range(3):
            answer = call("HEAD", path, Accept="text/event-stream")
            assert (answer.status, answer.body) == (200, b"")


HALF = {
    "nothing": b"",
    "half a line": b"GET /hea",
    "half the headers": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Something: ",
    "half a body": post("/jobs", QUICK)[:-5].encode(),
}


@pytest.mark.parametrize("part", HALF.values(), ids=HALF)
def test_what_does_not_arrive_in_time_is_not_waited_for(served, part):
    with served(connections=Connections(request_seconds=0.2)) as call, sent(call.port, part) as connection:
        said = b""
        while more := connection.recv(4096):
            said += more

        assert said.split()[1:2] == ([b"408"] if part else [])
        assert call.get("/health").status == 200


def test_half_sent_requests_do_not_stop_the_service(served):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))  # both ends are in this process
    try:
        with served() as call, ExitStack() as connections:
            for number in range(1120):
                part = list(HALF.values())[number % len(HALF)]
                connections.enter_context(sent(call.port, part))

            assert call.get("/health").status == 200
            assert call.post("/jobs", QUICK).status == 202
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_where_there_is_no_room_the_oldest_that_owes_a_request_goes(served):
    with served(connections=Connections(most=3)) as call, ExitStack() as connections:
        halves = [connections.enter_context(sent(call.port, HALF["half the headers"])) for _ in range(3)]

        assert call.get("/health").status == 200

        assert halves[0].recv(100) == b""
        assert is_silent(halves[2])


def test_who_is_being_answered_is_not_sent_away_for_a_new_one(served):
    with served(connections=Connections(most=2)) as call, ExitStack() as watchers:
        path = f"/jobs/{call.submit(QUICK)}/events"
        busy = [watchers.enter_context(sent(call.port, get(path))) for _ in range(2)]
        assert [status_of(connection) for connection in busy] == [200, 200]

        with pytest.raises(OSError, match=r"closed|reset"):
            call.get("/health")

        busy.pop().close()
        wait_until(lambda: _answers(call), SOON_SECONDS)


def _answers(call):
    try:
        return call.get("/health").status == 200
    except OSError:
        return False


def test_headers_without_end_are_refused(served):
    with served() as call, sent(call.port, "GET /health HTTP/1.1\r\nHost: localhost\r\n") as connection:
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            for _ in range(1000):
                connection.sendall(b"X-Padding: " + b"x" * 4096 + b"\r\n")
        assert call.get("/health").status == 200


CHUNKED = (
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sTransfer-Encoding: chunked\r\n\r\n"
)


def chunked(body, headers=b"", trailers=b""):
    text = json.dumps(body).encode()
    return CHUNKED % headers + b"%x\r\n%s\r\n0\r\n%s" % (len(text), text, trailers)


def test_a_trailer_is_no_header(served):
    shown = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
    with served(token=TOKEN) as call:
        with sent(call.port, chunked(QUICK, trailers=shown + b"\r\n")) as connection:
            assert status_of(connection) == 401
        with sent(call.port, chunked(QUICK, headers=shown, trailers=b"Host: evil.example\r\n\r\n")) as connection:
            assert status_of(connection) == 202


@pytest.mark.parametrize("trailer", [b"X-Padding: " + b"x" * 4096 + b"\r\n", b"x" * 4096], ids=["many", "one"])
def test_trailers_without_end_are_refused(served, trailer):
    with served() as call, sent(call.port, chunked(QUICK, trailers=b"X-Padding: x")) as connection:
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            for _ in range(1000):
                connection.sendall(trailer)
        assert call.get("/health").status == 200


def test_where_there_is_no_room_for_bodies_only_large_ones_are_refused(served, idle_jobs, monkeypatch):
    monkeypatch.setattr(front_module, "MOST_BODY_BYTES", -1)
    jobs = idle_jobs()
    question = known(jobs)
    with served(jobs) as call:
        assert call.get("/jobs").status == 200
        assert call.post("/analyze", question).status == 200
        assert call.post("/jobs", QUICK).status == 202
        assert is_error(call.post("/jobs", json.dumps(QUICK) + " " * 30_000), 429)


def test_who_waits_for_an_answer_keeps_no_body_out(served, idle_jobs, monkeypatch):
    monkeypatch.setattr(front_module, "MOST_BODY_BYTES", 20_000)
    jobs, padding = idle_jobs(), " " * 15_000
    with served(jobs) as call, ExitStack() as waiting:
        for number in range(2):
            waiting.enter_context(sent(call.port, post("/analyze", unknown(number), padding)))
        wait_until(lambda: jobs.status()["queue"]["waiting"] == 2)

        wait_until(lambda: call.post("/jobs", json.dumps(unknown(2)) + " " * 17_000).status == 202, SOON_SECONDS)


def test_what_is_no_http_is_told_so(served):
    with served() as call, sent(call.port, "nonsense\r\n\r\n") as connection:
        head, body = connection.recv(4096).split(b"\r\n\r\n")

        assert head.split()[1] == b"400"
        schemas.Error.model_validate_json(body)


def stuck(monkeypatch, jobs, name):
    """Has a method of the line, or of its history, wait until the event that is given is set."""
    real, go_on = getattr(jobs, name), threading.Event()

    def wait(*args, **more):
        assert go_on.wait(60)
        return real(*args, **more)

    monkeypatch.setattr(jobs, name, wait)
    return go_on


def test_health_is_told_while_every_thread_is_busy(served, idle_jobs, monkeypatch):
    jobs = idle_jobs()
    go_on = stuck(monkeypatch, jobs, "known")
    with served(jobs) as call, ExitStack() as connections:
        for number in range(50):
            connections.enter_context(sent(call.port, post("/jobs", unknown(number))))

        for _ in range(20):
            assert call.get("/health").status == 200

        go_on.set()


def test_known_answers_do_not_wait_for_what_is_being_written(served, idle_jobs, monkeypatch):
    jobs = idle_jobs()
    question = known(jobs)
    go_on = stuck(monkeypatch, jobs, "submit")
    with served(jobs) as call, ExitStack() as connections:
        for number in range(50):
            connections.enter_context(sent(call.port, post("/jobs", unknown(number))))

        assert call.post("/analyze", question).status == 200
        assert call.get("/jobs").status == 200

        go_on.set()


def test_questions_do_not_wait_for_jobs_that_are_being_cancelled(served, idle_jobs):
    jobs = idle_jobs()
    with served(jobs) as call, ExitStack() as connections:
        job_id = call.submit(QUICK)
        live = jobs.take(jobs.lanes[0])  # as a lane does whose worker does not end yet
        cancelling = [
            connections.enter_context(sent(call.port, get(f"/jobs/{job_id}").replace("GET", "DELETE")))
            for _ in range(8)
        ]
        wait_until(lambda: live.lease.stopped is not None)

        assert call.post("/jobs", unknown(1)).status == 202
        assert all(map(is_silent, cancelling))

        live.tell("error", **ended("cancelled", StoppedError("cancelled.", code="cancelled")))
        for connection in cancelling:
            connection.settimeout(SOON_SECONDS)
            assert b'"state":"cancelled"' in connection.recv(65536)


def test_known_answers_do_not_wait_for_searches_and_reports(served, idle_jobs, monkeypatch):
    jobs = idle_jobs()
    question = known(jobs)
    [job] = jobs.store.jobs()
    searching = stuck(monkeypatch, jobs.store, "jobs")
    page, rendering = job_routes.page, threading.Event()
    monkeypatch.setattr(job_routes, "page", lambda result: rendering.wait(60) and page(result))
    reading = stuck(monkeypatch, jobs.store.sweeps, "find")
    slow = (
        "/jobs?search=bert",
        "/jobs?%73earch=a+b",
        f"/jobs/{job.id}/report",
        f"/jobs/{job.id}/%72eport",
        "/sweeps/a",
    )
    with served(jobs) as call, ExitStack() as connections:
        for path in (*slow, *slow[-1:]):
            connections.enter_context(sent(call.port, get(path)))

        assert call.post("/analyze", question).status == 200
        assert call.get(f"/jobs/{job.id}").status == 200

        searching.set()
        rendering.set()
        reading.set()
        assert call.get("/jobs?search=bert").status == 200


def test_what_nobody_waits_for_any_more_is_not_begun(served, idle_jobs, monkeypatch):
    jobs = idle_jobs()
    go_on = stuck(monkeypatch, jobs, "submit")
    with served(jobs) as call:
        with ExitStack() as connections:
            for number in range(50):
                connections.enter_context(sent(call.port, post("/jobs", unknown(number))))
            wait_until(lambda: call.get("/jobs").status == 200)
        assert call.post("/jobs?x=%ff", QUICK).status == 400  # after all of them were heard to hang up
        go_on.set()
        assert call.post("/jobs", QUICK).status == 202

        assert call.health()["queue"]["waiting"] <= 10


def test_quick_health_is_the_apps(served, idle_jobs):
    origin = "https://dashboard.example.org"
    with served(origins=(origin,)) as call:
        quick, slow = call.get("/health", Origin=origin), call.get("/health?", X_A="1", Origin=origin)
        asked_for = call.get("/health?x=1", Origin=origin)

        for answer in (slow, asked_for):
            assert answer.json.keys() == quick.json.keys()
            names = {name.lower() for name in answer.headers} - {"vary"}
            assert names == {name.lower() for name in quick.headers} - {"vary"}
        assert "Origin" in quick.headers["Vary"]
        assert is_error(call.get("/health", Host="evil.example"), 403)
    with served(token=TOKEN) as call:
        assert call.get("/health").status == 200
        assert is_error(call.get("/jobs"), 401)


def test_a_server_that_stops_does_not_wait_for_those_who_dawdle(served):
    with ExitStack() as connections:
        with served() as call:
            path = f"/jobs/{call.submit(QUICK)}/events"
            for part in HALF.values():
                connections.enter_context(sent(call.port, part))
            assert call.get("/health").status == 200
        with pytest.raises(OSError, match="refused"):
            call.get(path)
