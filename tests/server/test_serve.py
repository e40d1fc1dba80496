"""``memorymark serve`` as a process: how it starts, what it logs, and how it ends."""

import json
import re
import signal
import socket
import threading
from concurrent.futures import Future
from http.client import HTTPException

import pytest

from memorymark.errors import MemoryMarkError
from memorymark.history import Store
from memorymark.server import serve as serve_module
from memorymark.server.serve import running
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from memorymark.version import __version__
from support.calls import QUICK, SLOW, Caller
from support.command_line import run_here
from support.faults import server_on
from support.processes import PATIENCE_SECONDS, is_running, wait_until


def run(*options, **environment):
    signal.alarm(PATIENCE_SECONDS)  # what should be refused may serve for ever
    try:
        return run_here("serve", "--port", "0", *options, **environment)
    finally:
        signal.alarm(0)


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """Two lives of one service: the first ends with a job at work and one in line, the second answers the latter."""
    folder, seen = tmp_path_factory.mktemp("lives"), {}
    with server_on(folder / "history.db", "--prediction-workers", "1") as first:
        seen["said"] = first.said
        seen["health"] = first.health()
        seen["running"] = first.submit(SLOW)
        wait_until(lambda: first.job(seen["running"])["state"] == "running")
        seen["queued"] = first.submit(QUICK)
        seen["waiting callers"] = []
        waits = threading.Thread(target=ask_and_wait, args=[first, seen["waiting callers"]])
        watches = threading.Thread(target=watch, args=[first, seen["queued"], seen])
        waits.start()
        watches.start()
        wait_until(lambda: first.health()["queue"]["waiting"] == 2)
        wait_until(lambda: first.watchers() == 1)
        seen["pids"] = pids(first)
        seen["first exit"] = first.end(signal.SIGTERM)
        waits.join()
        watches.join()
        seen["left behind"] = [pid for pid in seen["pids"] if is_running(pid)]
        seen["log"] = first.log
    store = Store(f"sqlite:///{folder}/history.db")
    seen["states"] = {name: store.job(seen[name]).state for name in ("running", "queued")}
    store.close()
    with server_on(folder / "history.db", "--prediction-workers", "1", "--quiet") as second:
        seen["interrupted"] = second.job(seen["running"])
        seen["resumed"] = second.finished(seen["queued"])
        seen["events"] = second.events(seen["queued"])
        wait_until(lambda: pids(second))
        seen["pids"] += pids(second)
        seen["second exit"] = second.end(signal.SIGINT)
        seen["left behind"] += [pid for pid in seen["pids"] if is_running(pid)]
        seen["quiet log"] = second.log
    return seen


def pids(server):
    return [worker["pid"] for worker in server.health()["workers"] if worker["pid"]]


def ask_and_wait(call, answers):
    try:
        answers.append(call.post("/analyze", {**QUICK, "seq_len": 32}))
    except (OSError, HTTPException) as error:
        answers.append(error)


def watch(call, job_id, seen):
    try:
        seen["stream"] = call.get(f"/jobs/{job_id}/events", Accept="text/event-stream").body
    except (OSError, HTTPException) as error:
        seen["stream"] = error


def test_it_says_where_it_is_and_answers_there(lives):
    assert re.match(
        r"MemoryMark is ready at (http://127\.0\.0\.1:\d+) · documentation at \1/openapi/swagger", lives["said"]
    )
    assert (lives["health"]["status"], lives["health"]["version"]) == ("healthy", __version__)


def test_asked_to_end_it_ends_well_and_leaves_no_process_behind(lives):
    assert (lives["first exit"], lives["second exit"]) == (0, 0)
    assert len(lives["pids"]) >= 2
    assert lives["left behind"] == []


def test_a_job_at_work_is_marked_as_interrupted(lives):
    job = lives["interrupted"]

    assert lives["states"]["running"] == "interrupted"
    assert (job["state"], job["error_kind"], job["result"]) == ("interrupted", "stopped", None)
    assert job["error"] == "the server stopped while this ran; ask again."


def test_a_job_in_line_is_answered_by_the_next_start(lives):
    events = lives["events"]

    assert lives["states"]["queued"] == "queued"
    assert (lives["resumed"]["state"], lives["resumed"]["result"]["model_name"]) == ("done", "bert")
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["data"], events[-1]["event"]) == ({"state": "queued"}, "result")


def test_whoever_waits_for_an_answer_is_told_that_the_service_ends(lives):
    [answer] = lives["waiting callers"]

    assert not isinstance(answer, Exception)
    assert (answer.status, answer.json["status"]) == (503, "error")


def test_whoever_watches_sees_the_stream_end_in_order(lives):
    assert not isinstance(lives["stream"], Exception)
    assert lives["stream"].startswith(b"retry: ")


def test_the_log_is_json_lines_that_name_the_job(lives):
    lines = [json.loads(line) for line in lives["log"][1:]]

    of_job = [line["message"] for line in lines if line.get("job") == lives["running"] and line["message"] != "request"]
    assert all(line.keys() >= {"at", "level", "message"} for line in lines)
    assert of_job == ["job queued", "job started", "job ended"]
    assert not [line for line in lines if line["level"] in ("error", "critical")]
    assert "shutting down" in [line["message"] for line in lines]


def test_a_quiet_service_logs_only_problems(lives):
    assert lives["quiet log"] == ["starting a worker …"]


def test_a_port_in_use_is_one_sentence_and_exit_code_2(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--port", str(port), "--database", f"sqlite:///{tmp_path}/history.db")

    assert (result.returncode, result.stdout) == (2, "")
    assert f"Error: cannot listen on 127.0.0.1, port {port}: " in result.stderr
    assert result.stderr.endswith("choose another with --port.\n")
    assert "Traceback" not in result.stderr


def test_a_server_that_cannot_start_leaves_no_lane_behind(tmp_path, monkeypatch):
    class Ready(WarmWorkers):
        """Workers that nobody has asked anything yet."""

        def prepare(self):
            self.loaded = {"device_kind": "cpu", "confinement": {}}
            done = Future()
            done.set_result(None)
            return done

    def refuse(*_):
        raise MemoryMarkError("the server could not start to listen.")

    monkeypatch.setattr(serve_module, "WarmWorkers", Ready)
    monkeypatch.setattr(serve_module, "HttpServer", refuse)
    before = set(threading.enumerate())

    with (
        pytest.raises(MemoryMarkError),
        running(Settings(port=0, database=f"sqlite:///{tmp_path}/history.db", prediction_workers=1)),
    ):
        pass

    assert set(threading.enumerate()) <= before


def test_a_second_server_on_the_same_history_is_refused(service):
    result = run("--database", f"sqlite:///{service.jobs.store.file}")

    assert (result.returncode, result.stdout) == (2, "")
    assert "Error: another server already uses this history; stop it, or give this one its own" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--database", "nonsense"), "'nonsense' is not a database URL"),
        (("--database", "sqlite://"), "the history needs a file"),
        (("--database", "oracle://host/name"), "there is no driver for oracle here"),
        (("--database", "bogus://host/name"), "there is no driver for bogus here"),
        (("--origin", "dashboard.example.org"), "'dashboard.example.org' is not an origin"),
        (("--host", "0.0.0.0"), "anyone who reaches 0.0.0.0 could use the GPUs; set a --token, or use --open-to-all"),
        (("--token", "secret"), "a token needs at least 16 characters"),
        (("--queue-size", "0"), "--queue-size must be 1 or more, not 0"),
        (("--prediction-workers", "0"), "--prediction-workers must be 1 or more, not 0"),
        (("--job-seconds", "nan"), "--job-seconds must be"),
        (("--host", "nowhere.invalid", "--open-to-all"), "cannot listen on nowhere.invalid"),
        (("--replay-speed", "0"), "--replay-speed must be a number above 0, not 0"),
        (
            ("--replay", "run.json"),
            "--replay keeps no history, since the answers that it plays are not from this machine; drop --database",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_is_one_sentence_and_exit_code_2(options, said, tmp_path):
    database = () if "--database" in options else ("--database", f"sqlite:///{tmp_path}/history.db")
    result = run(*options, *database)

    assert (result.returncode, result.stdout) == (2, "")
    assert f"Error: {said}" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.endswith(".\n")


def test_a_recording_that_is_none_is_one_sentence_and_exit_code_2(tmp_path):
    result = run("--replay", str(tmp_path / "run.json"))

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {tmp_path / 'run.json'} cannot be read: No such file or directory;")


def test_a_token_in_the_environment_counts():
    result = run("--database", "sqlite://", MEMORYMARK_TOKEN="short")

    assert result.returncode == 2
    assert "a token needs at least 16 characters" in result.stderr


def test_a_name_with_two_addresses_is_served(tmp_path, monkeypatch):
    real = socket.getaddrinfo

    def both(host, *rest, **more):
        names = ("127.0.0.1", "::1") if host == "localhost" else (host,)
        return [found for name in names for found in real(name, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    database = f"sqlite:///{tmp_path}/history.db"
    with running(Settings(host="localhost", port=0, database=database, prediction_workers=1)) as service:
        assert Caller(service.port).get("/health").status == 200


def test_help_names_every_option():
    result = run("--help")

    assert result.returncode == 0
    for option in """--host --port --open --token --open-to-all --origin --database --queue-size --prediction-workers
                     --job-seconds --quiet""".split():
        assert option in result.stdout
