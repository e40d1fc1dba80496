"""Errors as data: what they carry, and that none of it is lost on the way to whoever reads it."""

import json
import math
import pickle
from typing import get_args

import pytest

from memorymark.errors import (
    CLASSES,
    Code,
    DoesNotFitError,
    MemoryMarkError,
    Proposal,
    StopCode,
    UsageCode,
    UsageError,
    WorkerError,
    of_kind,
)
from memorymark.messages import Message
from memorymark.suggestions import Suggestion
from memorymark.units import GIB

MARGIN = UsageError(
    Message("{margin} is a fraction from 0 to below 1, not {given:g}.", given=1.5),
    code="out_of_range",
    field="margin",
    given=1.5,
    allowed={"minimum": 0, "below": 1},
    proposals=[Proposal("the usual margin", {"margin": None})],
)
FITS = Suggestion(change={"lora": 16}, recipe="LoRA", max_batch_size=5, device_bytes=GIB, total_bytes=2 * GIB)


def through_json(error, dialect="python", **options):
    document = json.loads(json.dumps(error.to_dict(dialect, **options), allow_nan=False))
    return MemoryMarkError.from_dict(document, dialect)


def facts(error):
    names = ("code", "field", "given", "allowed", "suggestions", "message", "hint")
    return type(error), {name: getattr(error, name) for name in names}


def test_the_same_error_is_said_in_the_terms_of_each_reader():
    assert MARGIN.said_in("command_line") == "--margin is a fraction from 0 to below 1, not 1.5."
    assert str(MARGIN) == "margin= is a fraction from 0 to below 1, not 1.5."
    assert MARGIN.said_in("http") == "margin is a fraction from 0 to below 1, not 1.5."


def test_what_to_do_follows_what_is_wrong():
    error = UsageError("Net has no checkpointing.", hint=Message("drop {gradient_checkpointing}."))

    assert error.said_in("command_line") == "Net has no checkpointing; drop --gradient-checkpointing."
    assert error.reason == "Net has no checkpointing."


@pytest.mark.parametrize("dialect", ["python", "http"])
@pytest.mark.parametrize(
    "error",
    [
        MARGIN,
        UsageError("unknown.", code="unknown_model", field="model", proposals=[Proposal("bert", {"model": "bert"})]),
        UsageError("no {braces}.", hint=Message("drop {lora}"), given=True),
        WorkerError("it crashed."),
    ],
    ids=lambda error: error.code,
)
def test_nothing_is_lost_on_the_way_through_json(error, dialect):
    assert facts(through_json(error, dialect)) == facts(error)


@pytest.mark.parametrize("suggestions", [None, [], [FITS]])
def test_what_does_not_fit_keeps_what_does_and_whether_it_was_looked_for(suggestions):
    error = DoesNotFitError("it does not fit", 5, hint="take another", suggestions=suggestions)

    read = through_json(error)
    assert facts(read) == facts(error)
    assert read.shortfall_bytes == 5


def test_over_http_fields_are_those_of_the_body():
    error = UsageError("unknown.", field="model", proposals=[Proposal("bert", {"model": "bert", "gpu": "a10"})])

    document = error.to_dict("http")
    assert document["field"] == "model_name"
    assert document["suggestions"][0]["change"] == {"model_name": "bert", "gpu": "a10"}


def test_what_a_library_said_is_told_only_where_it_may_be():
    error = WorkerError("it crashed.", detail="CUDA error: 719.")

    assert "719" not in json.dumps(error.to_dict("http"))
    assert str(error) == "it crashed: CUDA error: 719."
    assert through_json(error, with_detail=True).detail == error.detail


def test_every_document_has_the_same_fields():
    for error in (MARGIN, WorkerError("it crashed."), MemoryMarkError("failed.")):
        assert set(error.to_dict()) == {
            "error", "code", "field", "given", "allowed", "suggestions", "message", "hint",
        }  # fmt: skip
        assert isinstance(error.to_dict()["suggestions"], list)


@pytest.mark.parametrize("code", get_args(Code))
def test_every_code_is_said_by_a_class_that_reads_it_back(code):
    error = CLASSES[code]("it failed.", code=code)

    assert type(through_json(error)) is CLASSES[code]
    assert through_json(error).code == code


def test_every_class_has_a_code_of_its_own():
    kinds = [MemoryMarkError]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one.__module__ == MemoryMarkError.__module__]

    own = set(get_args(Code)) - set(get_args(UsageCode)) - set(get_args(StopCode)) - {"internal"}
    assert {kind.code for kind in kinds} == own
    assert len(own) == len(kinds)


def test_a_code_of_a_newer_version_is_an_error_all_the_same():
    document = {**MARGIN.to_dict(), "code": "of_tomorrow"}

    assert type(MemoryMarkError.from_dict(document)) is MemoryMarkError
    assert type(MemoryMarkError.from_dict(document, otherwise=UsageError)) is UsageError


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"code": "usage"},
        {**MARGIN.to_dict(), "message": "words"},
        {**MARGIN.to_dict(), "message": {"template": "{", "values": {}}},
        {**MARGIN.to_dict(), "suggestions": [{"label": "x"}]},
    ],
)
def test_what_is_no_document_of_an_error_is_refused(document):
    with pytest.raises((AttributeError, LookupError, TypeError, ValueError)):
        MemoryMarkError.from_dict(document)


@pytest.mark.parametrize("kind", ["usage", "does_not_fit", "cannot_predict", "worker", "time_limit", "internal", None])
def test_an_error_of_an_older_version_is_a_sentence_of_its_sort(kind):
    error = of_kind(kind, "try --precision bf16.", [FITS.to_dict()])

    assert error.said_in("http") == "try --precision bf16."
    assert error.suggestions == ([FITS] if kind == "does_not_fit" else [])


def test_numbers_that_json_does_not_know_are_told_all_the_same():
    error = UsageError(Message("{margin} is {given:g}.", given=math.nan), field="margin", given=math.nan)

    assert through_json(error).given == "nan"
    assert str(through_json(error)) == "margin= is nan."


def test_an_error_can_be_pickled():
    read = pickle.loads(pickle.dumps(MARGIN))

    assert facts(read) == facts(MARGIN)
    assert repr(read) == f"UsageError({str(MARGIN)!r})"
