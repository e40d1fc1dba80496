"""Configs of Hugging Face for sealed workers, fetched from a Hub that stands here."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from huggingface_hub import hf_hub_download

from memorymark import Request, UsageError
from memorymark.question.configs import LARGEST_CONFIG_BYTES
from memorymark.worker.fetching import fetched_config

CONFIG = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2}
BODIES = {
    "/some/model/resolve/main/config.json": json.dumps(CONFIG).encode(),
    "/some/model/resolve/v2/config.json": json.dumps({**CONFIG, "hidden_size": 128}).encode(),
    "/some/large/resolve/main/config.json": b" " * (LARGEST_CONFIG_BYTES + 1),
}


class Hub(BaseHTTPRequestHandler):
    """Answers as the Hub does for files; remembers what it was asked, and by whom."""

    asked: ClassVar = []
    endpoint = ""

    def do_HEAD(self):
        self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def _answer(self, *, with_body):
        Hub.asked.append((self.command, self.path, self.headers.get("Authorization")))
        body = BODIES.get(self.path)
        self.send_response(404 if body is None else 200)
        if body is None:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", str(len(body or b"")))
        self.send_header("ETag", f'"{abs(hash(self.path)):040x}"')
        self.send_header("X-Repo-Commit", f"{abs(hash(self.path)):040x}")
        self.end_headers()
        if with_body and body is not None:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_operator")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "token").write_text("hf_login_of_the_operator")
    Hub.asked.clear()
    Hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    yield Hub
    server.shutdown()
    server.server_close()


def test_a_config_is_fetched_as_anybody_may_and_once(hub):
    first, again = (fetched_config(Request(model="some/model")) for _ in range(2))
    other = fetched_config(Request(model="some/model", revision="v2"))

    assert first == again == CONFIG
    assert other["hidden_size"] == 128
    assert len([path for method, path, _ in hub.asked if method == "GET"]) == 2
    assert {who for *_, who in hub.asked} == {None}


def test_a_file_too_large_for_a_config_is_not_even_fetched(hub):
    with pytest.raises(UsageError, match=r"is larger than .*, too large for a model's config"):
        fetched_config(Request(model="some/large"))

    assert [method for method, *_ in hub.asked] == ["HEAD"]


def test_a_model_that_is_private_to_the_operator_is_none_for_callers(hub):
    with pytest.raises(UsageError, match="Hugging Face has no model the-operators/own, or it is private"):
        fetched_config(Request(model="the-operators/own"))

    assert {who for *_, who in hub.asked} == {None}


def test_what_the_operator_has_in_the_cache_is_not_for_callers_whom_the_hub_refuses(hub, tmp_path, monkeypatch):
    monkeypatch.setitem(BODIES, "/the-operators/own/resolve/main/config.json", json.dumps(CONFIG).encode())
    file = hf_hub_download("the-operators/own", "config.json", cache_dir=tmp_path / "hub", endpoint=hub.endpoint)
    assert Path(file).is_file()
    monkeypatch.delitem(BODIES, "/the-operators/own/resolve/main/config.json")

    with pytest.raises(UsageError, match="Hugging Face has no model the-operators/own, or it is private"):
        fetched_config(Request(model="the-operators/own"))


@pytest.mark.parametrize("request_of", [{"model": "bert"}, {"config": CONFIG}, {"model": "timm:resnet18"}])
def test_what_is_no_hugging_face_id_needs_nothing(request_of):
    assert fetched_config(Request(**request_of)) is None
