"""The client against the real service, and against what is none."""

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import memorymark as mm
from memorymark import answer as engine
from memorymark import client as client_module
from memorymark.catalog import all_gpus, all_models
from memorymark.client import Client
from memorymark.errors import QueueFullError, ServerError, StoppedError, UsageError
from memorymark.events import StageStarted, TrialFinished
from memorymark.history.listed_sweep import SweepCase
from memorymark.question.question import Question
from memorymark.suggestions import Proposal
from support.calls import TOKEN
from support.grids import case
from support.service import serving

REQUEST = mm.Request(model="bert", small=True, seq_len=16, target=mm.Target(gpu="a10"))
QUESTION = Question(request=REQUEST)
TOO_LARGE = Question(request=replace(REQUEST, target=mm.Target(gpu="a10", memory_cap_bytes=10 * 2**20)))


@pytest.fixture
def url(call):
    return call.address


@pytest.fixture
def short_line(idle_jobs):
    """A line that nobody works on and that takes two jobs."""
    return idle_jobs(queue_size=2)


@contextmanager
def served_again(jobs, **settings):
    """The address of one more server for the same jobs, with settings of its own."""
    with serving(jobs, **{"heartbeat_seconds": 0.02, **settings}) as call:
        yield call.address


def without_seconds(analysis):
    return replace(analysis, seconds={}, info=replace(analysis.info, seconds={}))


def test_an_answer_is_the_one_that_the_engine_gives_here(client):
    heard = []

    there = client.answer(QUESTION, fresh=True, on_event=heard.append)

    trials = [event.trial for event in heard if isinstance(event, TrialFinished)]
    stages = [event.stage for event in heard if isinstance(event, StageStarted)]
    assert without_seconds(there) == without_seconds(engine.answer(QUESTION))
    assert trials == there.trials
    assert heard[0] == StageStarted("start", "waiting in line")
    assert stages == ["start", "start", "search", "search", "throughput"]
    capacities = {event.stage: event.capacity_bytes for event in heard if isinstance(event, StageStarted)}
    assert capacities == {"start": None, "search": there.info.capacity_bytes, "throughput": None}


def test_what_is_already_known_is_answered_at_once_unless_it_shall_be_fresh(client):
    known, heard = client.answer(QUESTION), []

    again = client.answer(QUESTION, on_event=heard.append)
    fresh = client.answer(QUESTION, fresh=True, on_event=heard.append)

    assert again == known
    assert without_seconds(fresh) == without_seconds(known)
    assert [event.trial for event in heard if isinstance(event, TrialFinished)] == fresh.trials


def test_a_model_is_asked_about_by_name_with_the_options_of_python(client):
    options = {"small": True, "gpu": "a10"}

    one = client.analyze("bert", seq_len=16, **options)
    advice = client.advise("bert", seq_len=16, max_batch=16, **options)

    assert one == client.answer(QUESTION)
    assert (advice.kind, advice.request) == ("advice", one.request)


def test_a_workload_cannot_be_sent_to_a_service(client):
    workload = mm.Workload(build=lambda: None, batch=lambda size, device: {})

    with pytest.raises(mm.UsageError, match="give a name or a Request"):
        client.analyze(workload, gpu="a10")


def test_a_comparison_comes_back_as_one(client):
    question = Question(request=replace(REQUEST, target=mm.Target()), compare_gpus=("l4", "a10", "t4"))

    comparison = client.answer(question)

    assert comparison.analyses.keys() == {"l4", "a10", "t4"}
    assert without_seconds(comparison.analyses["a10"]).trials == client.answer(QUESTION).trials


def test_the_facts_of_a_service(client):
    assert client.health()["status"] == "healthy"
    assert [model["id"] for model in client.models()] == [entry.id for entry in all_models()]
    assert [gpu["id"] for gpu in client.gpus()] == [entry.id for entry in all_gpus()]


def test_a_job_is_submitted_looked_at_and_listed(client):
    earlier, job = client.submit(QUESTION, fresh=True), client.submit(QUESTION, fresh=True)

    events = list(client.events(job.id))
    ended, listed = client.job(job.id), client.jobs(model="bert", state="done", limit=1)
    assert not job.is_finished
    assert (ended.state, ended.error, ended.is_finished) == ("done", None, True)
    assert ended.result() == mm.Analysis.from_dict(events[-1]["data"])
    assert [one.id for one in listed] == [job.id]
    assert earlier.id in [one.id for one in client.jobs(before=job.id)]
    assert list(client.events(job.id, after=len(events) - 1)) == events[-1:]
    assert list(client.events(job.id, after=len(events))) == []


def test_sweeps_are_listed_and_followed(short_line):
    cases = [SweepCase(case=case(number, 10.0), is_answered=number == 1) for number in (1, 2)]
    for sweep_id in ("a" * 12, "b" * 12):
        short_line.store.sweeps.begin(sweep_id, "sweep.yaml", (), cases)
    with served_again(short_line) as url:
        client = Client(url)
        latest = client.sweeps(limit=1)
        earlier = client.sweeps(before="b" * 12)
        sweep = client.sweep("a" * 12)
        rest = client.sweep("a" * 12, after=sweep["upto"])
        with pytest.raises(UsageError, match="there is no sweep with this id"):
            client.sweep("c" * 12)

    assert [one["id"] for one in latest + earlier] == ["b" * 12, "a" * 12]
    assert [one["state"] for one in sweep["cases"]] == ["done", "waiting"]
    assert rest["cases"] == []


def test_a_job_that_is_cancelled_has_no_answer(short_line):
    with served_again(short_line) as url:
        client = Client(url)
        job = client.submit(QUESTION)

        with pytest.raises(StoppedError, match=f"job {job.id} is still queued"):
            job.result()
        cancelled = client.cancel(job.id)

        assert (cancelled.state, client.job(job.id)) == ("cancelled", cancelled)
        with pytest.raises(StoppedError, match="cancelled"):
            cancelled.result()
        assert client.cancel(job.id) == cancelled


def test_what_does_not_fit_is_raised_as_here_with_what_was_tried(client):
    with pytest.raises(mm.DoesNotFitError, match=r"does not train within 10\.0 MiB even at batch 1") as raised:
        client.answer(TOO_LARGE)
    with pytest.raises(mm.DoesNotFitError) as here:
        engine.answer(TOO_LARGE)

    there = raised.value
    assert there.trials
    assert not any(trial.fits for trial in there.trials)
    assert there.suggestions == here.value.suggestions
    assert (str(there), there.shortfall_bytes) == (str(here.value), here.value.shortfall_bytes)


def test_a_refusal_keeps_its_data_and_is_said_in_the_caller_s_terms(client):
    nowhere = Question(request=replace(REQUEST, target=mm.Target(device="cuda:99")))

    with pytest.raises(mm.UsageError, match=r"there is no cuda:99 here, only .*; name a GPU .* with gpu=") as raised:
        client.submit(nowhere)

    error = raised.value
    assert (error.code, error.field, error.given) == ("no_device", "device", "cuda:99")
    assert {one.change["device"] for one in error.suggestions} < set(error.allowed)
    assert "with --gpu" in error.said_in("command_line")


def test_a_model_is_called_as_in_python_and_not_as_in_the_body():
    told = mm.UsageError("no.", code="unknown_model", field="model", proposals=[Proposal("bert", {"model": "bert"})])
    body = json.dumps({"status": "error", **told.to_dict("http")}).encode()

    with pretender(says(400, body)) as url, pytest.raises(mm.UsageError) as raised:
        Client(url).models()

    assert (raised.value.code, raised.value.field) == ("unknown_model", "model")
    assert raised.value.suggestions == told.suggestions


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (400, {}, mm.UsageError),
        (403, {"code": "of_tomorrow"}, mm.UsageError),
        (422, {"kind": "does_not_fit"}, mm.DoesNotFitError),
        (422, {"kind": "does_not_fit", "code": "does_not_fit", "message": "broken"}, mm.DoesNotFitError),
        (429, {}, QueueFullError),
        (500, {}, ServerError),
    ],
)
def test_an_error_of_another_version_is_a_sentence_all_the_same(status, document, kind):
    body = json.dumps({"status": "error", "error": "no; try --precision bf16.", **document}).encode()

    with pretender(says(status, body)) as url, pytest.raises(kind, match=r"^no; try --precision bf16\.$"):
        Client(url).models()


def test_what_cannot_be_predicted_is_raised_as_here(client):
    with pytest.raises(mm.CannotPredictError, match=r"torch\.compile"):
        client.answer(Question(request=replace(REQUEST, recipe=mm.Recipe(compile=True))))


def test_what_the_service_refuses_is_a_usage_error_with_its_sentence(client):
    with pytest.raises(mm.UsageError, match="there is no cuda:99 here, only cpu"):
        client.submit(Question(request=mm.Request(model="bert", target=mm.Target(device="cuda:99"))))
    with pytest.raises(mm.UsageError, match="there is no job with this id"):
        client.job("000000000000")
    with pytest.raises(mm.UsageError, match="unknown model 'brt'"):
        client.jobs(model="brt")
    with pytest.raises(mm.UsageError):
        client.job("../health")
    with pytest.raises(mm.UsageError, match=r"takes a memorymark\.Question"):
        client.answer("bert")


def test_a_job_beyond_its_limit_is_stopped(client):
    with pytest.raises(StoppedError, match=r"longer than its limit of 0\.2 s"):
        client.answer(Question(request=mm.Request(model="gpt2", target=mm.Target(gpu="t4"))), time_limit_seconds=0.2)


def test_a_full_line_is_an_error_of_its_own(short_line):
    with served_again(short_line) as url:
        client = Client(url)
        for tokens in (8, 9):
            client.submit(Question(request=mm.Request(model="bert", seq_len=tokens)))

        with pytest.raises(QueueFullError, match="2 jobs are waiting and no more are taken"):
            client.submit(QUESTION)


def test_the_address_may_come_from_the_variable(url, monkeypatch):
    monkeypatch.setenv("MEMORYMARK_SERVER", url)

    assert Client().url == url


def test_the_token_may_come_from_the_variable(service, monkeypatch):
    with served_again(service.jobs, token=TOKEN) as url:
        with pytest.raises(mm.UsageError, match="requires a token"):
            Client(url).models()
        with pytest.raises(mm.UsageError, match="requires a token"):
            Client(url, token="another-token-0123456789").models()
        assert Client(url, token=TOKEN).models()

        monkeypatch.setenv("MEMORYMARK_TOKEN", TOKEN)
        assert Client(url).models()


@pytest.mark.parametrize("token", ["a-token\n", "a-token\r\nHost: evil.example", "日本語のトークン"], ids=ascii)
def test_a_token_that_cannot_be_sent_is_told_in_a_sentence(url, token):
    with pytest.raises(mm.UsageError, match="token"):
        Client(url, token=token).health()


@pytest.mark.parametrize("given", ["127.0.0.1:{port}", "http://127.0.0.1:{port}/", "http://localhost:{port}"])
def test_an_address_may_be_written_in_several_ways(service, given):
    assert Client(given.format(port=service.port)).health()["status"] == "healthy"


@pytest.mark.parametrize(
    "given", ["", "ftp://host", "http://", "file:///etc/passwd", "http://host:port", "http://[::1"]
)
def test_what_is_no_address_is_refused(given):
    with pytest.raises(mm.UsageError, match="is not the address of a server"):
        Client(given)


def test_where_no_server_is_the_error_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(ServerError, match=f"no server answers at http://127.0.0.1:{port} .*`memorymark serve`"):
        Client(f"127.0.0.1:{port}").health()


@contextmanager
def pretender(answer):
    """A server of something else; ``answer`` writes what it says to each call."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_):
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def says(status, body, kind="application/json"):
    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def cut_short(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"status"')


PRETENDERS = {
    "page": says(200, b"<html></html>", "text/html"),
    "empty": says(200, b""),
    "other JSON": says(200, b"{}"),
    "list": says(200, b"[]"),
    "error page": says(404, b"<html></html>", "text/html"),
    "other error": says(500, b'{"message": "no"}'),
    "list of errors": says(500, b'["no"]'),
    "no HTTP": lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "nothing": lambda handler: None,
    "half an answer": cut_short,
}


@pytest.mark.parametrize("answer", PRETENDERS.values(), ids=PRETENDERS)
def test_what_is_no_memorymark_server_is_told_so(answer):
    with pretender(answer) as url:
        client = Client(url)
        for call in (client.models, client.gpus, client.jobs, lambda: client.job("0"), lambda: client.submit(QUESTION)):
            with pytest.raises(ServerError):
                call()


def test_streams_that_end_early_are_resumed_and_every_event_is_seen_once(service, client):
    with served_again(service.jobs, stream_seconds=0.02) as url:
        job = client.submit(QUESTION, fresh=True)
        events = list(Client(url).events(job.id))

    assert events == list(client.events(job.id))
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))


def test_a_job_may_wait_through_any_number_of_streams(short_line):
    with served_again(short_line, stream_seconds=0.01, heartbeat_seconds=0.01) as url:
        client = Client(url)
        job, events = client.submit(QUESTION), []
        watcher = threading.Thread(target=lambda: events.extend(client.events(job.id)))
        watcher.start()

        for _ in range(3 * client_module.RECONNECTS):
            watcher.join(0.05)
        client.cancel(job.id)
        watcher.join()

    assert [event["event"] for event in events] == ["state", "error"]


def test_a_stream_cut_in_the_middle_is_taken_up_again(monkeypatch):
    monkeypatch.setattr(client_module, "RECONNECT_SECONDS", 0.01)
    sent = [
        {"id": number, "event": "stage" if number < 4 else "result", "at": "", "data": {}} for number in (1, 2, 3, 4)
    ]
    asked = []

    def answer(handler):
        """One event and half of the next, and then the connection is gone."""
        after = int(handler.headers["Last-Event-ID"])
        asked.append(after)
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        whole = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in sent[after:])
        cut = whole[: whole.index(b"\n\n") + 2 + 9]
        handler.wfile.write(b"%x\r\n%s" % (len(whole), cut))
        handler.close_connection = True

    with pretender(answer) as url:
        events = list(Client(url).events("abc"))

    assert events == sent
    assert asked == [0, 1, 2, 3]


def test_where_too_many_watch_the_client_asks_now_and_then(short_line, monkeypatch):
    monkeypatch.setattr(client_module, "RECONNECT_SECONDS", 0.01)
    with served_again(short_line, max_watchers=1, stream_seconds=60) as url:
        client = Client(url)
        job, seen = client.submit(QUESTION), {"first": [], "second": []}
        watchers = []
        for events in seen.values():
            watchers.append(threading.Thread(target=lambda into=events: into.extend(client.events(job.id))))
            watchers[-1].start()
        time.sleep(0.2)
        client.cancel(job.id)
        for watcher in watchers:
            watcher.join()

    assert [event["event"] for event in seen["first"]] == ["state", "error"]
    assert seen["first"] == seen["second"]
