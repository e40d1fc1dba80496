"""The service behind nginx, as deploy/nginx/memorymark.conf sets it up."""

import gzip
import json
import re
from contextlib import closing
from socket import create_connection

import pytest

from memorymark.server.settings import Settings
from support.calls import QUICK, SLOW, TOKEN, Caller
from support.nginx import CONFIGURATION, behind_nginx, trusting
from support.processes import wait_until
from support.service import serving

ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
ONCE = ["Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Strict-Transport-Security"]


@pytest.fixture(scope="module")
def proxied(service, tmp_path_factory):
    with (
        serving(service.jobs, token=TOKEN) as call,
        behind_nginx(call.port, tmp_path_factory.mktemp("nginx"), **ALLOWED) as proxied,
    ):
        yield proxied


def test_plain_http_is_sent_to_https(proxied):
    answer = Caller(proxied.plain_port).get("/jobs?limit=1", Host="memorymark.example.org")

    assert (answer.status, answer.headers["Location"]) == (308, "https://memorymark.example.org/jobs?limit=1")


def test_browsers_get_http_2(proxied):
    context = trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with create_connection(("127.0.0.1", proxied.port)) as raw, context.wrap_socket(raw) as secured:
        assert secured.selected_alpn_protocol() == "h2"


def test_the_token_is_required_and_passed_on(proxied):
    assert proxied.get("/jobs").status == 200
    assert proxied.get("/jobs", Authorization="Bearer wrong-wrong-wrong").status == 401


def test_each_security_header_is_sent_once(proxied):
    for path in ("/", "/jobs", "/jobs/000000000000"):
        headers = proxied.get(path).headers
        assert {name: len(headers.get_all(name, [])) for name in ONCE} == dict.fromkeys(ONCE, 1)


def test_an_answer_is_compressed_once(proxied):
    answer = proxied.get("/openapi/openapi.json", Accept_Encoding="gzip")

    assert answer.headers.get_all("Content-Encoding") == ["gzip"]
    assert json.loads(gzip.decompress(answer.body))["openapi"]


def test_a_body_that_the_service_refuses_is_refused_in_its_sentence(proxied):
    answer = proxied.post("/jobs", {"model_name": "x" * 400_000})

    assert (answer.status, answer.json["status"]) == (413, "error")
    assert proxied.post("/jobs", {"model_name": "x" * 2_000_000}).status == 413


def test_whoever_waits_gets_the_answer(proxied):
    answer = proxied.post("/analyze", QUICK)

    assert (answer.status, answer.json["data"]["model_name"]) == (200, "bert")


def test_nginx_waits_longer_than_the_service():
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", CONFIGURATION.read_text())

    assert int(seconds) > Settings().job_seconds


def test_an_event_arrives_before_there_is_another(proxied):
    in_the_way, waiting = proxied.submit(SLOW), proxied.submit(QUICK, fresh=True)
    with closing(proxied.connect()) as connection:
        connection.timeout = 10
        connection.request("GET", f"/jobs/{waiting}/events", headers=proxied.headers())
        first = next(line for line in connection.getresponse() if line.startswith(b"data: "))

    assert json.loads(first.removeprefix(b"data: "))["data"] == {"state": "queued"}
    assert proxied.job(waiting)["state"] == "queued"
    for job_id in (waiting, in_the_way):
        proxied.cancel(job_id)


def test_a_watcher_who_leaves_is_noticed(proxied):
    with closing(proxied.connect()) as connection:
        job_id = proxied.submit(SLOW)
        connection.request("GET", f"/jobs/{job_id}/events", headers=proxied.headers())
        connection.getresponse().readline()
        assert proxied.watchers() == 1

    wait_until(lambda: proxied.watchers() == 0)
    assert proxied.cancel(job_id)["state"] == "cancelled"
