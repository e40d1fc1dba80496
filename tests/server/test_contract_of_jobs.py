"""Made-up questions that make sense, or nearly: each is worked on to its end, and what comes of it is as documented."""

import itertools
import json
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from memorymark.server import schemas
from support.calls import sent_events

# What a job may fail with because of what was asked; anything else is a bug.
ASKERS_FAULTS = {"usage", "does_not_fit", "cannot_predict"}
# A schema cannot say what goes together, so that valid data may be refused; and this service wants no token.
NOT_CHECKED = [not_a_server_error, positive_data_acceptance, ignored_auth]
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 99}
IMAGE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "patch_size": 8}
# Models of a few kilobytes, each with a sample of its kind.
MODELS = [
    ({"model_type": "bert", **TEXT}, {"seq_len": 8}),
    ({"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 99}, {"seq_len": 8}),
    ({"model_type": "llama", **TEXT}, {"seq_len": 8}),
    ({"model_type": "vit", "image_size": 16, **IMAGE}, {"image_size": 16}),
    ({"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, {"image_size": 32}),
]
# What is kept of a body that was made from the schema: how it is trained and what it costs, not how much work it is.
KEPT = """precision optimizer fused attention gradient_checkpointing channels_last tf32 eval_mode loss accumulate margin
    price_per_hour hours_per_run runs_per_year people""".split()
# A step aside from what is valid: some of it is refused at once, some when the model is built, some does not fit.
STEPS_ASIDE = [
    {"memory_gib": 0.0001},
    {"batch_size": 4096, "max_batch": 8},
    {"lora": 4},
    {"compile": True},
    {"seq_len": 1, "image_size": 1},
    {"task": "text-classification"},
    {"gpu": "a11"},
    {"gpu": "h100", "precision": "bf16"},
    {"time_limit": 86_400},
    {"fresh": True},
]
DEEP = json.loads("[" * 600 + "]" * 600)
CONFIG_STEPS_ASIDE = [
    {"hidden_size": 33},
    {"num_hidden_layers": 0},
    {"vocab_size": 1},
    {"num_labels": 5},
    {"hidden_act": "no-such-activation"},
    {"layer_norm_eps": -1.0, "unknown_field": [{}]},
    {"num_attention_heads": "2"},
    {"model_type": "resnet", "layer_type": "\ud800"},
    {"hidden_act": "a\udfff"},
    {"id2label": {"0": "\x00"}},
    {"deep": DEEP},
]
FEW = {"max_batch": 2, "batch_size": 1}
RECIPES = 3


@pytest.fixture(scope="module")
def contract(service):
    """The OpenAPI document of the running service."""
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{service.port}/openapi/openapi.json")


def asked(case, model, aside=None, config_aside=None):
    """The body of a made-up call with a question in it that can be worked on in no time."""
    config, sample = model
    kept = {name: value for name, value in case.body.items() if name in KEPT}
    return {**kept, **FEW, "config": {**config, **(config_aside or {})}, "gpu": "a10", **sample, **(aside or {})}


def checked(contract, method, path, **how):
    """A call whose answer is held to the document."""
    case = contract[path][method].Case(**how)
    response = case.call()
    case.validate_response(response, excluded_checks=NOT_CHECKED)
    assert response.status_code < 500, response.text
    return response


def ended(contract, call, job_id):
    """A job that came to its end, of which everything that can be asked is as documented."""
    call.finished(job_id)
    here = {"path_parameters": {"job_id": job_id}}
    job = checked(contract, "GET", "/jobs/{job_id}", **here).json()["job"]
    told = checked(contract, "GET", "/jobs/{job_id}/events", headers={"Accept": "application/json"}, **here).json()
    assert [event["id"] for event in told["events"]] == list(range(1, len(told["events"]) + 1))
    streamed = sent_events(call.get(f"/jobs/{job_id}/events").body)
    for event in streamed:
        schemas.EventView.model_validate(event, strict=True)
    assert streamed == told["events"]
    last = told["events"][-1]
    if job["state"] == "done":
        assert (last["event"], last["data"]) == ("result", job["result"])
    else:
        assert (last["event"], last["data"]["error"]) == ("error", job["error"])
        assert job["error_kind"] in ASKERS_FAULTS, job["error"]
        assert job["error"].endswith(".")
    return job


def worked_on(contract, call, examples, **question):
    """Asks for it with recipes that are made up from the schema; how the jobs that came of it ended, and the rest."""
    ends = Counter()
    paths = itertools.cycle(["/jobs", "/analyze"])

    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=contract["/jobs"]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def check(case):
        asking = contract[next(paths)]["POST"].Case(body=asked(case, **question), media_type="application/json")
        response = asking.call()
        assert response.status_code < 500, response.text
        asking.validate_response(response, excluded_checks=NOT_CHECKED)
        document = response.json()
        job_id = document.get("job_id") or document.get("job", {}).get("id")
        ends[ended(contract, call, job_id)["state"] if job_id else response.status_code] += 1

    check()
    return ends


def test_questions_that_make_sense_are_worked_on_to_an_end_that_is_documented(contract, call):
    ends = sum((worked_on(contract, call, RECIPES, model=model) for model in MODELS), Counter())

    assert ends["done"] > ends.total() / 2, ends
    assert ends.keys() <= {"done", "failed", 400}
    checked(contract, "GET", "/jobs", query={"limit": 500})


def test_what_nearly_makes_sense_is_refused_or_worked_on_to_an_end_that_is_documented(contract, call):
    steps = [{"aside": step} for step in STEPS_ASIDE] + [{"config_aside": step} for step in CONFIG_STEPS_ASIDE]
    ends = Counter()
    for step, model in zip(steps, itertools.cycle(MODELS)):
        ends += worked_on(contract, call, 1, model=model, **step)

    assert ends.keys() == {"done", "failed", 400}, ends


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("comparison", {"compare_gpus": ["l4", "t4"], "gpu": None}),
        ("sweep", {"seq_lens": [4, 8], "seq_len": None}),
        ("advice", {"advise": True}),
    ],
)
def test_every_kind_of_question_ends_as_documented(contract, call, kind, more):
    body = {"config": MODELS[0][0], "gpu": "a10", "seq_len": 8, **FEW, **more}
    job_id = checked(contract, "POST", "/jobs", body=body, media_type="application/json").json()["job"]["id"]

    job = ended(contract, call, job_id)

    assert (job["state"], job["kind"]) == ("done", kind)
