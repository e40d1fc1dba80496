"""Bodies and queries that do not keep to their model, told like every other error."""

import json

import pytest
from pydantic import TypeAdapter

from memorymark.server import schemas
from memorymark.server.app import create_app
from memorymark.server.settings import Settings


@pytest.fixture
def asked(idle_jobs):
    """The error that a question gets."""
    client = create_app(idle_jobs(), Settings()).test_client()

    def ask(**fields):
        answer = client.post("/jobs", json={"model_name": "bert", **fields})
        TypeAdapter(schemas.Error).validate_python(answer.json, strict=False)
        assert answer.status_code == 400
        return answer.json

    return ask


@pytest.mark.parametrize(
    ("fields", "code", "allowed"),
    [
        ({"margin": 1}, "out_of_range", {"minimum": 0, "below": 1}),
        ({"memory_gib": 0}, "out_of_range", {"maximum": 1e6, "above": 0}),
        ({"batch_size": "16"}, "wrong_type", {"minimum": 1}),
        ({"precision": "int8"}, "unknown_choice", ["fp32", "bf16", "fp16"]),
        ({"fused": "yes"}, "wrong_type", None),
        ({"config": ["x" * 500]}, "wrong_type", None),
        ({"seq_lens": [0]}, "out_of_range", {}),
    ],
    ids=json.dumps,
)
def test_a_field_that_is_wrong_is_told_with_what_it_may_be(asked, fields, code, allowed):
    ((field, given),) = fields.items()

    error = asked(**fields)
    assert (error["code"], error["field"]) == (code, field)
    assert error["given"] in (given, "a list", 0)
    if isinstance(allowed, dict):
        assert allowed.items() <= error["allowed"].items()
    else:
        assert error["allowed"] == allowed


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"precison": "bf16"}, {"precison": None, "precision": "bf16"}),
        ({"seq_length": 16}, {"seq_length": None, "seq_len": 16}),
        ({"model": "bert"}, {"model_name": "bert"}),
        ({"precision": "bf61"}, {"precision": "bf16"}),
        ({"gpu": "a11"}, {"gpu": "a10"}),
        ({"model_name": "brt"}, {"model_name": "bert"}),
        ({"image_size": 224}, {"image_size": None}),
    ],
    ids=json.dumps,
)
def test_a_slip_comes_with_a_change_that_the_service_takes(asked, idle_jobs, fields, change):
    error = asked(**fields)

    changes = [one["change"] for one in error["suggestions"]]
    assert any(change.items() <= one.items() for one in changes)
    body = {"model_name": "bert", **fields, **next(one for one in changes if change.items() <= one.items())}
    left = {name: value for name, value in body.items() if value is not None}
    answer = create_app(idle_jobs(), Settings()).test_client().post("/jobs", json=left)
    assert answer.status_code == 202


def test_an_unknown_field_names_those_of_its_own_body(idle_jobs):
    client = create_app(idle_jobs(), Settings()).test_client()

    told = client.post("/analyze", json={"model_name": "bert", "all_gpu": True}).json
    assert "all_gpus" not in told["allowed"]
    assert {"model_name", "margin"} < set(told["allowed"])


def test_a_query_is_told_in_the_same_shape(idle_jobs):
    told = create_app(idle_jobs(), Settings()).test_client().get("/jobs?limit=0").json

    assert (told["code"], told["field"], told["allowed"]) == ("out_of_range", "limit", {"minimum": 1, "maximum": 500})


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [("GET", "/nowhere", "not_found"), ("PUT", "/jobs", "usage"), ("POST", "/jobs", "malformed")],
)
def test_refusals_of_any_kind_have_a_code(idle_jobs, method, path, code):
    told = create_app(idle_jobs(), Settings()).test_client().open(path, method=method).json

    TypeAdapter(schemas.Error).validate_python(told, strict=False)
    assert told["code"] == code
