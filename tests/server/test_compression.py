"""What browsers load again and again: compressed, and not sent twice."""

import gzip
import json

import pytest

from memorymark.server import app as app_module
from memorymark.server.app import create_app
from memorymark.server.settings import Settings

SCRIPT = "console.log('a line of a script');\n" * 200
PAGE = "<!doctype html><title>MemoryMark</title>" + "<p>words</p>" * 200
GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture
def client(idle_jobs, tmp_path, monkeypatch):
    folder = tmp_path / "dashboard"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "assets" / "app-1234.js").write_text(SCRIPT)
    (folder / "assets" / "picture.png").write_bytes(bytes(5000))
    monkeypatch.setattr(app_module, "DASHBOARD", folder)
    return create_app(idle_jobs(), Settings()).test_client()


FILES = {
    "/assets/app-1234.js": SCRIPT,
    "/": PAGE,
}


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_compressed_for_who_takes_it_and_plain_for_others(client, path):
    page = {"Accept": "text/html"}
    packed, plain = client.get(path, headers={**GZIP, **page}), client.get(path, headers=page)

    assert (packed.headers["Content-Encoding"], plain.headers.get("Content-Encoding")) == ("gzip", None)
    assert gzip.decompress(packed.data).decode() == plain.text == FILES[path]
    assert len(packed.data) < len(plain.data) / 3
    for answer in (packed, plain):
        assert "Accept-Encoding" in answer.headers["Vary"]
        assert answer.headers["Content-Length"] == str(len(answer.data))


def test_who_has_a_file_is_told_so_and_not_sent_it(client):
    for path, headers in (("/", GZIP), ("/", {}), ("/openapi/openapi.json", GZIP), ("/openapi/openapi.json", {})):
        asked = {**headers, "Accept": "text/html"}
        first = client.get(path, headers=asked)
        again = client.get(path, headers={**asked, "If-None-Match": first.headers["ETag"]})

        assert (first.status_code, again.status_code, again.data) == (200, 304, b"")
        assert "no-cache" in first.headers["Cache-Control"]
        assert "no-store" not in first.headers["Cache-Control"]


def test_what_is_named_after_its_content_is_never_asked_for_again(client):
    for headers in (GZIP, {}):
        script = client.get("/assets/app-1234.js", headers=headers)
        assert script.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_a_page_that_has_changed_is_sent_again(client, tmp_path):
    old = client.get("/", headers={**GZIP, "Accept": "text/html"})
    (tmp_path / "dashboard" / "index.html").write_text(PAGE + "<p>more</p>")

    new = client.get("/", headers={**GZIP, "Accept": "text/html", "If-None-Match": old.headers["ETag"]})

    assert new.status_code == 200
    assert gzip.decompress(new.data).decode().endswith("<p>more</p>")


def test_long_json_is_compressed_and_short_is_not(client):
    packed, plain = client.get("/models", headers=GZIP), client.get("/models")
    short = client.get("/jobs", headers=GZIP)

    assert json.loads(gzip.decompress(packed.data)) == plain.json
    assert packed.headers["Cache-Control"] == "no-store"
    assert "Content-Encoding" not in short.headers
    assert short.json["jobs"] == []


def test_documents_and_pictures_are_sent_as_they_should_be(client):
    document = client.get("/openapi/openapi.json", headers=GZIP)
    picture = client.get("/assets/picture.png", headers=GZIP)
    refused = client.get("/openapi/openapi.json", headers={"Accept-Encoding": "gzip;q=0, br"})

    assert json.loads(gzip.decompress(document.data)) == refused.json
    assert "Content-Encoding" not in picture.headers
    assert picture.data == bytes(5000)


def test_nothing_of_a_stream_is_held_back(client):
    job_id = client.post("/jobs", json={"model_name": "bert", "gpu": "a10"}).json["job"]["id"]
    stream = client.get(f"/jobs/{job_id}/events", headers={**GZIP, "Accept": "text/event-stream"})

    assert "Content-Encoding" not in stream.headers
    assert next(stream.response) == b"retry: 1000\n\n"
    stream.close()
