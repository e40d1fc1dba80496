"""Passwords and tokens reach the server they are for, and nothing else: no error, document, file or log."""

import base64
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from support.command_line import run_here
from support.fleet_cluster import serving_http
from support.servers import free_port

PASSWORD, TOKEN = "s3cret-pass%2Fword", "s3cret-token-of-fleet"
SECRETS = ("s3cret", "alice", base64.b64encode(b"alice:s3cret-pass/word").decode())


@contextmanager
def prometheus(status=200, body=b"{}", location=""):
    """A server that answers every call alike, and what it was sent."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with serving_http(Handler) as port:
        yield f"127.0.0.1:{port}", heard


def said(ran):
    """Everything that a command said, which must be an error without a secret."""
    text = ran.stdout + ran.stderr
    assert "Traceback" not in text
    assert not any(secret in text for secret in SECRETS), text
    return ran.returncode, text


def both(url, **environment):
    """The error as a sentence and as a document."""
    asked = ("fleet", "--prometheus", url)
    code, text = said(run_here(*asked, **environment))
    as_document, document = said(run_here(*asked, "--json", "--quiet", **environment))
    assert code == as_document
    return code, text, json.loads(document)


def test_a_password_is_sent_as_basic_authentication():
    with prometheus() as (address, heard):
        both(f"http://alice:{PASSWORD}@{address}/prom")

    path, authorization = heard[0]
    assert authorization == f"Basic {SECRETS[2]}"
    assert path.startswith("/prom/api/v1/query_range?query=avg_over_time")


def test_a_token_is_sent_as_a_bearer():
    with prometheus() as (address, heard):
        both(f"http://{address}", MEMORYMARK_PROMETHEUS_TOKEN=TOKEN)

    assert heard[0][1] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("status", "body", "code", "says"),
    [
        (200, b"not json", 1, "does not answer as Prometheus does"),
        (200, b'{"data": {"result": []}}', 1, "has no DCGM_FI_DEV_GPU_UTIL"),
        (200, b'{"data": {"result": [{"metric": 1}]}}', 1, "does not answer as Prometheus does"),
        (401, b"", 2, "wants a token or a password"),
        (404, b"nothing here", 1, "status 404"),
        (422, b'{"status": "error", "error": "query timed out"}', 1, "query timed out"),
        (500, b"\xff", 1, "status 500"),
    ],
)
def test_what_fails_is_said_without_them(status, body, code, says):
    with prometheus(status, body) as (address, _):
        failed, text, document = both(f"http://alice:{PASSWORD}@{address}", MEMORYMARK_PROMETHEUS_TOKEN=TOKEN)

    assert (failed, document["status"]) == (code, "error")
    assert says in text
    assert f"http://{address}" in text


def test_a_redirect_is_refused_so_that_no_other_server_gets_them():
    with prometheus() as (other, heard), prometheus(302, location=f"http://{other}/") as (address, _):
        code, text, _ = both(f"http://alice:{PASSWORD}@{address}")

    assert (code, heard) == (1, [])
    assert "leads to another address" in text


def test_a_server_that_is_not_there():
    code, text, document = both(f"http://alice:{PASSWORD}@127.0.0.1:{free_port()}")

    assert (code, document["code"]) == (1, "server")
    assert "no server answers at http://127.0.0.1:" in text


@pytest.mark.parametrize(
    "url", ["ftp://alice:s3cret@host", "http://alice:s3cret@", "http://alice:s3cret@host:99999", "http://host?t=s3cret",
            "http://alice:s3cret@host/\nX: y"],
)  # fmt: skip
def test_what_is_no_address_is_not_repeated(url):
    code, text, document = both(url)

    assert (code, document["code"], document["field"], document["given"]) == (2, "malformed", "prometheus", None)
    assert "takes the address of a Prometheus server" in text


def test_an_address_from_the_environment_is_no_more_repeated():
    ran = run_here("fleet", MEMORYMARK_PROMETHEUS="ftp://alice:s3cret@host")

    assert said(ran)[0] == 2


def test_a_token_that_cannot_be_sent():
    ran = run_here("fleet", "--prometheus", "http://127.0.0.1:1", MEMORYMARK_PROMETHEUS_TOKEN="s3cret\ntoken")

    assert said(ran)[0] == 2
