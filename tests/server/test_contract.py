"""Thousands of calls that the OpenAPI document allows or forbids; every answer must be one that it describes."""

from collections import Counter
from dataclasses import replace
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance, response_schema_conformance

from memorymark.catalog import all_gpus, all_models
from memorymark.history import JobEvent, new_job
from memorymark.history.listed_sweep import AxisValue, SweepAxis, SweepCase
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.results.comparison import Comparison
from memorymark.results.option import Refused
from memorymark.server import schemas
from memorymark.server.app import create_app
from memorymark.server.settings import Settings
from support.advices import advice, option
from support.aged import aged
from support.calls import TOKEN, sent_events
from support.grids import case as swept_case
from support.grids import unanswered
from support.recorded_analyses import recorded

# Schemathesis says that it takes gzip, but does not unpack what a WSGI app answers.
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "identity"}
# What a service may answer if it is too busy; any other status from 500 up is a bug.
TOO_BUSY = (503, 504)
# A schema cannot say which models there are, nor that --seq-len is not for images: valid data may be refused.
NOT_CHECKED = [not_a_server_error, positive_data_acceptance]
DONE, COMPARED, ADVISED, FAILED = "d0ed0ed0ed0e", "c0c0c0c0c0c0", "adadadadadad", "fa11edfa11ed"
OLD, OLD_ADVICE = "01d01d01d01d", "01dad01dad01"
SWEPT = "5ee95ee95ee9"
ADVICE = advice(option(("bf16",), 500.0, measured=330.0), measured=110.0, refused=(Refused(("lora",), "no."),))
AXES = (SweepAxis("gpu", "GPU", (AxisValue("a10", "NVIDIA A10"), AxisValue(None, "not set")), True),)
SWEPT_CASES = [
    SweepCase(case=swept_case(1, 100.0, 1.0, off=0.1), is_answered=True),
    SweepCase(case=unanswered(2, "does_not_fit", "it does not fit."), is_answered=True),
    SweepCase(case=swept_case(3), is_answered=False),
]
CASES = {
    "GET /": 50,
    "GET /health": 50,
    "GET /metrics": 50,
    "GET /models": 50,
    "GET /gpus": 50,
    "GET /options": 50,
    "GET /jobs": 250,
    "POST /jobs": 400,
    "POST /analyze": 250,
    "POST /advise": 150,
    "GET /jobs/{job_id}": 200,
    "DELETE /jobs/{job_id}": 200,
    "GET /jobs/{job_id}/report": 50,
    "GET /jobs/{job_id}/events": 200,
    "GET /sweeps": 100,
    "GET /sweeps/{sweep_id}": 100,
    "GET /sweeps/{sweep_id}/report": 50,
}


@pytest.fixture
def app(idle_jobs):
    """The real app and history over a line that no lane works on.

    What is fuzzed is how questions are taken and how answers look; thousands of analyses would only take hours. So jobs
    stay in line, and POST /analyze waits a tenth of a second for nobody.
    """
    jobs = idle_jobs(queue_size=40)
    for job_id, facts in finished_jobs().items():
        happened = [JobEvent(1, "state", {"state": "queued"}, 1.0), JobEvent(2, facts.pop("last"), {}, 2.0)]
        kind = {name: facts.pop(name, False) for name in ("all_gpus", "advise")}
        question = Question(request=Request(model="bert"), **kind)
        jobs.store.add(replace(new_job(question, "http"), id=job_id, **facts), happened)
    jobs.store.sweeps.begin(SWEPT, "sweep.yaml", AXES, SWEPT_CASES)
    return create_app(jobs, Settings(token=TOKEN, job_seconds=0.1, stream_seconds=0.02, heartbeat_seconds=0.02))


def finished_jobs():
    _, analysis = recorded("bert_fp32")
    comparison = Comparison(analysis.request, {"h200": analysis})
    times = {"started_at": 1.0, "finished_at": 2.0}
    return {
        DONE: {"state": "done", "result": analysis.to_dict(), "last": "result", **times},
        COMPARED: {"state": "done", "result": comparison.to_dict(), "last": "result", "all_gpus": True, **times},
        ADVISED: {"state": "done", "result": ADVICE.to_dict(), "last": "result", "advise": True, **times},
        OLD: {"state": "done", "result": aged(comparison.to_dict()), "last": "result", "all_gpus": True, **times},
        OLD_ADVICE: {"state": "done", "result": aged(ADVICE.to_dict()), "last": "result", "advise": True, **times},
        FAILED: {"state": "failed", "error": "no.", "error_kind": "worker", "last": "error", **times},
    }


def sensible_body():
    """Values that exist, to put in place of generated ones: few made-up names are those of a model."""
    return st.fixed_dictionaries(
        {"model_name": st.sampled_from([name for entry in all_models() for name in (entry.id, entry.huggingface_id)])},
        optional={
            "gpu": st.sampled_from([entry.id for entry in all_gpus()]),
            "device": st.sampled_from(["auto", "cpu", "cuda"]),
            "seq_len": st.sampled_from([None, 1, 512]),
            "image_size": st.none(),
            "channels_last": st.just(False),
            "memory_gib": st.none(),
            "all_gpus": st.booleans(),
        },
    )


def fuzz(app, operation, mode, examples):
    """Makes the calls, checks every answer, and counts them by status."""
    schema = schemathesis.openapi.from_wsgi("/openapi/openapi.json", app)
    method, path = operation.split()
    generated = schema[path][method].as_strategy(generation_mode=mode, headers=AUTHORIZED)
    known_ids = st.sampled_from([DONE, COMPARED, ADVISED, OLD, OLD_ADVICE, FAILED, None, None])
    accepts = st.sampled_from(["text/event-stream", "application/json", "text/html", "*/*", "nonsense"])
    statuses = Counter()

    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=generated, job_id=known_ids, body=st.none() | sensible_body(), accept=accepts)
    def check(case, job_id, body, accept):
        if job_id and "{sweep_id}" in path:
            case.path_parameters = {"sweep_id": SWEPT}
        if job_id and "{job_id}" in path:
            case.path_parameters = {"job_id": job_id}
        if path.endswith("/events"):
            case.headers["Accept"] = accept
        if mode is GenerationMode.POSITIVE and body and isinstance(case.body, dict):
            sensible = {name: value for name, value in body.items() if name != "all_gpus" or path == "/jobs"}
            case.body = {**case.body, **sensible}
        response = case.call()
        statuses[response.status_code] += 1
        assert response.status_code < 500 or response.status_code in TOO_BUSY, response.text
        if response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
            for event in sent_events(response.content):
                schemas.EventView.model_validate(event, strict=True)
            # OpenAPI 3.1 has no words for a stream of events; Schemathesis would hold each against the whole's schema.
            case.validate_response(response, excluded_checks=[*NOT_CHECKED, response_schema_conformance])
        else:
            case.validate_response(response, excluded_checks=NOT_CHECKED)

    check()
    return statuses


def test_every_operation_is_fuzzed(app):
    schema = schemathesis.openapi.from_wsgi("/openapi/openapi.json", app)

    assert {result.ok().label for result in schema.get_all_operations()} == CASES.keys()


@pytest.mark.parametrize("operation", CASES)
def test_what_the_document_allows_gets_an_answer_that_it_describes(app, operation):
    statuses = fuzz(app, operation, GenerationMode.POSITIVE, CASES[operation])

    expected = {
        "POST /jobs": {202, 400, 403, 429},
        "POST /analyze": {400, 403, 504},
        "POST /advise": {400, 504},
        "GET /jobs/{job_id}": {200, 404},
        "DELETE /jobs/{job_id}": {200, 404},
        "GET /jobs/{job_id}/report": {200, 404},
        "GET /jobs/{job_id}/events": {200, 204, 404},
        "GET /jobs": {200, 400},
        "GET /sweeps": {200, 400},
        "GET /sweeps/{sweep_id}": {200, 404},
        "GET /sweeps/{sweep_id}/report": {200, 404},
    }.get(operation, {200})
    # An answer that is there already, and a line that fills only if enough of the questions make sense.
    possible = {"POST /jobs": {200}, "POST /analyze": {429}, "POST /advise": {403, 429}}.get(operation, set())
    assert expected <= statuses.keys() <= expected | possible


@pytest.mark.parametrize("operation", ["GET /jobs", "POST /jobs", "POST /analyze", "GET /jobs/{job_id}/events"])
def test_what_the_document_forbids_is_refused(app, operation):
    # That what is forbidden is refused is one of the checks; a few made-up faults are none once they are in a URL.
    statuses = fuzz(app, operation, GenerationMode.NEGATIVE, CASES[operation])

    assert statuses[400] > CASES[operation] / 2


@pytest.mark.parametrize("ending", ["", "/events"])
@settings(max_examples=200, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(job_id=st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_whatever_is_asked_for_as_a_job_is_at_worst_not_there(app, ending, job_id):
    answer = app.test_client().get(f"/jobs/{quote(job_id, safe='')}{ending}", headers=AUTHORIZED)

    assert answer.status_code == 404
    schemas.Error.model_validate(answer.json, strict=True)
