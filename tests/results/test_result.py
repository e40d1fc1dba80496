"""Every result is its document: it says its kind, and what is read back is what was written."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorymark.results.result import BY_KIND, result_from_dict
from memorymark.results.trial import Trial
from support.generated import advices, analyses, comparisons, sweeps, trials

RESULTS = {"analysis": analyses(), "comparison": comparisons(), "sweep": sweeps(), "advice": advices()}
few = settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def through_json(document):
    return json.loads(json.dumps(document, allow_nan=False))


@few
@given(trials())
def test_a_trial_is_read_back(trial):
    document = trial.to_dict()

    assert document["kind"] == "trial"
    assert Trial.from_dict(through_json(document)) == trial


@pytest.mark.parametrize("kind", RESULTS)
@few
@given(data=st.data())
def test_a_result_is_read_back_by_its_kind(kind, data):
    result = data.draw(RESULTS[kind])
    document = through_json(result.to_dict())

    read = result_from_dict(document)

    assert (document["kind"], type(read)) == (kind, BY_KIND[kind])
    assert read == result if kind != "advice" else sorted(map(repr, read.options)) == sorted(map(repr, result.options))
    assert through_json(read.to_dict()) == document


def test_every_kind_of_result_is_tried_here():
    assert RESULTS.keys() == BY_KIND.keys()


@pytest.mark.parametrize("document", [{}, {"kind": "plan"}, {"kind": None, "options": []}, {"options": []}])
def test_what_says_no_kind_of_a_result_is_none(document):
    with pytest.raises(KeyError):
        result_from_dict(document)
