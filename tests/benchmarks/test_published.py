"""What others published is predicted, and what is shown of it is what was recorded."""

import json
from statistics import median

import pytest

from published import RECORD, result
from published_cases import Question, question_of, rows
from support.torch_versions import needs_torch_of_records

ROWS = {f"{row['source']} {row['number']}": row for row in rows()}
FOUND = {f"{one['source']} {one['number']}": one for one in json.loads(RECORD.read_text(encoding="utf-8"))["rows"]}
# DistilBERT, bert-large with checkpointing, and litgpt's StableLM.
CHEAP = ["model docs 100", "tables 21", "litgpt 59"]


def stated_errors(source=""):
    some = [one.get("then", one) for key, one in FOUND.items() if key.startswith(source) and one.get("stated")]
    return [abs(one["off"]) for one in some if one["off"] is not None]


@needs_torch_of_records
@pytest.mark.parametrize("key", CHEAP)
def test_a_published_run_is_predicted_as_recorded(key):
    found = result(ROWS[key], then=False)

    assert found["predicted"] == pytest.approx(FOUND[key]["predicted"], rel=1e-3)
    assert found["fits"] is FOUND[key]["fits"]


@pytest.mark.parametrize("key", ROWS)
def test_a_row_is_predicted_or_says_why_not(key):
    asked, found = question_of(ROWS[key]), FOUND[key]

    if isinstance(asked, Question):
        assert found["stated"] is asked.stated
        assert found["predicted"] > 0
        assert (found["off"] is None) is (ROWS[key]["memory"] == "OOM")
    else:
        assert found["reason"] == asked
        assert len(asked) > 10


def test_an_error_is_that_of_the_recorded_numbers():
    for key, one in FOUND.items():
        if one.get("off") is not None:
            published = float(ROWS[key]["memory"])
            assert one["predicted"] / published - 1 == pytest.approx(one["off"], abs=1e-3), key


def test_where_the_recipe_is_stated_half_of_the_predictions_are_within_5_percent():
    assert len(stated_errors()) >= 100
    for source in ("", "litgpt", "model docs", "tables"):
        assert median(stated_errors(source)) < 0.05, source
