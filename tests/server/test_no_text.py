"""Text that is no text, and nesting without end, end at the edge with a sentence."""

import json
from itertools import product

import pytest

from memorymark.checks.text import MOST_LEVELS
from memorymark.server import schemas
from memorymark.server.app import create_app
from memorymark.server.settings import Settings


@pytest.fixture
def jobs(idle_jobs):
    return idle_jobs()


@pytest.fixture
def client(jobs):
    return create_app(jobs, Settings()).test_client()


def nested(levels, inner='"x"'):
    """A config so deep."""
    return '{"a":' * (levels - 1) + f'{{"a":{inner}}}' + "}" * (levels - 1)


def is_refused(answer):
    schemas.Error.model_validate(answer.json, strict=True)
    assert (answer.status_code, answer.json["error"][-1]) == (400, ".")
    return True


NO_TEXT = {
    "a lone surrogate": rb'"\ud800"',
    "the second half": rb'"a\udfffb"',
    "halves in the wrong order": rb'"\udc00\ud800"',
    "as bytes": b'"\xed\xa0\x80"',
    "a NUL": rb'"a\u0000b"',
}
PLACES = {
    "a value": b'{"config": {"model_type": "resnet", "layer_type": %s}, "gpu": "a10"}',
    "deep inside": b'{"config": {"model_type": "resnet", "x": [[{"y": [1, %s]}]]}, "gpu": "a10"}',
    "a key": b'{"config": {"model_type": "resnet", "x": {%s: 1}}, "gpu": "a10"}',
    "a name": b'{"model_name": %s, "config": {"model_type": "resnet"}}',
    "a revision": b'{"model_name": "a/b", "revision": %s}',
    "a field": b'{"model_name": "bert", %s: 1}',
    "a task": b'{"model_name": "bert", "task": %s}',
    "a gpu": b'{"model_name": "bert", "gpu": %s}',
}


def test_text_that_is_none_is_refused_wherever_it_is(client, jobs):
    for text, place, path in product(NO_TEXT.values(), PLACES.values(), ("/jobs", "/analyze", "/advise")):
        assert is_refused(client.post(path, data=place % text, content_type="application/json")), (text, place, path)
    assert jobs.store.count() == 0
    assert client.get("/health").json["status"] == "healthy"


def test_text_of_every_kind_is_taken(client):
    config = {"model_type": "resnet", "note": "naïve 模型 🦙 \u202e \x1b[1m", "\u00e9": ["😀"]}
    body = json.dumps({"config": config, "gpu": "a10"})

    assert client.post("/jobs", data=body, content_type="application/json").status_code == 202
    assert client.post("/jobs", json={"config": config, "gpu": "a10"}).status_code in (200, 202)


def test_nesting_without_sense_is_refused(client, jobs):
    for levels in (MOST_LEVELS, 100, 500, 700, 950, 5000, 40_000):
        for deep in (nested(levels), "[" * levels + "]" * levels):
            body = f'{{"config": {{"model_type": "resnet", "x": {deep}}}, "gpu": "a10"}}'
            assert is_refused(client.post("/jobs", data=body, content_type="application/json")), levels
    assert jobs.store.count() == 0


def test_nesting_with_sense_is_taken(client):
    body = f'{{"config": {{"model_type": "resnet", "x": {nested(MOST_LEVELS - 3)}}}, "gpu": "a10"}}'

    answer = client.post("/jobs", data=body, content_type="application/json")
    assert answer.status_code == 202, answer.json


def test_a_query_that_is_no_text_is_refused(client):
    for query in ("model=%00", "model=a%00b", "model=%ff", "model=%ED%A0%80", "state=%ff", "%ff=1"):
        assert is_refused(client.get(f"/jobs?{query}"))
