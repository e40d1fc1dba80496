"""Results as earlier versions wrote them: without a kind, and without what was added since."""

import json
from dataclasses import replace

import pytest

from memorymark.results.old_documents import kind_of_old_document, with_kind
from memorymark.results.option import Fault, Refused
from memorymark.results.result import result_from_dict
from support.advices import advice, option
from support.aged import aged
from support.comparisons import comparison
from support.lengths import SWEEP
from support.recorded_analyses import recorded

ADVICE = advice(option(("bf16",), 500.0, measured=330.0), measured=110.0, refused=(Refused(("lora",), "no."),))
RESULTS = {
    "analysis": recorded("bert_fp32")[1],
    "comparison": comparison(t4=50, h200=1000),
    "sweep": SWEEP,
    "advice": ADVICE,
}


@pytest.mark.parametrize("kind", RESULTS)
def test_an_old_result_and_all_in_it_get_the_kind_that_they_are(kind):
    document = json.loads(json.dumps(RESULTS[kind].to_dict()))
    old = aged(document, only_kind=True)

    assert old != document
    assert kind_of_old_document(old) == kind
    assert with_kind(old) == document
    assert with_kind(document) is document


@pytest.mark.parametrize("kind", RESULTS)
def test_an_old_result_without_what_was_added_since_is_read_back(kind):
    old = aged(json.loads(json.dumps(RESULTS[kind].to_dict())))

    read = result_from_dict(with_kind(old))

    assert type(read) is type(RESULTS[kind])
    assert aged(json.loads(json.dumps(read.to_dict()))) == old


def test_what_was_added_since_is_missing_in_the_old_results_of_these_tests():
    analysis, compared, advised = (aged(RESULTS[kind].to_dict()) for kind in ("analysis", "comparison", "advice"))

    assert not {"kind", "speedup_interval", "smaller_because", "code"} & analysis.keys()
    assert not {"weights_dtype", "trainable_parameters"} & analysis["info"].keys()
    assert not {"kind", "intervals"} & analysis["trials"][0].keys()
    assert not {"kind", "fastest_candidates"} & compared.keys()
    assert "samples_per_second_interval" not in compared["gpus"][0]
    assert not {"kind", "code"} & compared["analyses"]["t4"].keys()
    assert not {"kind", "incomplete", "faults"} & advised.keys()
    assert ("device_gb" in advised["options"][0], "code" in advised["options"][0]) == (False, True)
    assert not {"kind", "intervals"} & advised["today"]["predicted"].keys()


def test_faults_that_an_old_advice_could_not_have_are_none():
    document = replace(ADVICE, faults=(Fault(("lora",), "lost."),)).to_dict()

    assert result_from_dict(with_kind(aged(document))).faults == ()


@pytest.mark.parametrize("damaged", [None, 7, "text", [], {"trials": 7}, {"options": [1, None]}, {"analyses": [None]}])
def test_what_is_damaged_is_left_to_whoever_reads_it(damaged):
    dated = with_kind(damaged)

    assert dated == ({"kind": kind_of_old_document(damaged), **damaged} if isinstance(damaged, dict) else damaged)
