"""What others published on other GPUs: the recorded predictions keep to their limits, and are those of this code."""

import json
from statistics import median

import pytest

from other_gpus import RECORD, compared
from other_gpus_cases import DATASHEETS, GPUS, HELD_OUT, question_of, rows
from support.torch_versions import needs_torch_of_records

ROWS = {(row["source"], int(row["number"])): row for row in rows()}
FOUND = json.loads(RECORD.read_text())["rows"]
# One of each kind that is quick to trace, on a GPU that was fitted on and on one that was not.
LIVE = [("lambda", "resnet50", "AMP", "rtx3090"), ("lambda", "bert_base_squad", "FP32", "a100-40gb")]


def errors(*, held_out, source=None):
    chosen = [one for one in FOUND if one["held_out"] is held_out and source in (None, one["source"])]
    assert chosen
    return sorted(abs(one["seconds"] / float(ROWS[one["source"], one["number"]]["seconds"]) - 1) for one in chosen)


def coverage(*, held_out):
    chosen = [one for one in FOUND if one["held_out"] is held_out]
    seconds = [float(ROWS[one["source"], one["number"]]["seconds"]) for one in chosen]
    intervals = [one["interval"] for one in chosen]
    inside = [low <= true <= high for true, (low, high) in zip(seconds, intervals, strict=True)]
    return sum(inside) / len(inside)


def test_published_times_on_gpus_that_were_fitted_on_are_within_a_tenth_in_the_median():
    found = errors(held_out=False)

    assert median(found) < 0.10
    assert sum(error < 0.25 for error in found) > 0.9 * len(found)


def test_on_gpus_that_nothing_was_fitted_on_they_are_no_worse_than_a_third_more():
    found = errors(held_out=True)

    assert median(found) < 1.3 * 0.10
    assert sum(error < 0.25 for error in found) > 0.85 * len(found)


def test_neusight_s_trainings_are_all_within_a_fifth_though_nothing_was_fitted_on_them():
    assert errors(held_out=True, source="neusight")[-1] < 0.20
    assert not [one for one in FOUND if one["source"] == "neusight" and not one["held_out"]]


def test_about_nine_of_ten_published_times_on_held_out_gpus_lie_in_the_interval():
    assert 0.85 < coverage(held_out=True) < 0.97


def test_each_row_is_predicted_or_has_a_reason():
    predicted = {(one["source"], one["number"]) for one in FOUND}

    for key, row in ROWS.items():
        assert isinstance(question_of(row), str) != (key in predicted)
        assert row["repository"] and row["path"] and row["commit"]


def test_every_gpu_that_is_held_out_is_one_of_the_rows():
    assert set(GPUS.values()) >= HELD_OUT
    assert set(GPUS.values()) >= set(DATASHEETS) - {"V100-PCIE"}  # only its operations were published


@needs_torch_of_records
@pytest.mark.parametrize(("source", "model", "precision", "gpu"), LIVE)
def test_the_recorded_predictions_are_those_of_this_code(source, model, precision, gpu):
    def is_asked(one):
        row = ROWS[one["source"], one["number"]]
        return (one["source"], row["model"], row["precision"], one["gpu"]) == (source, model, precision, gpu)

    recorded = next(one for one in FOUND if is_asked(one))
    found = compared(ROWS[source, recorded["number"]])

    assert found.seconds == pytest.approx(recorded["seconds"], rel=1e-3), "run `benchmarks/other_gpus.py --record`"
    assert found.interval == pytest.approx(recorded["interval"], rel=1e-3)
