"""Loops that keep the model's outputs and loops that do not, against what an NVIDIA H200 did with them."""

import json

import pytest

from keep_outputs import TRUTH
from llm import case_of, predicted
from support.torch_versions import needs_torch_of_records

pytestmark = needs_torch_of_records
MEASURED = [json.loads(line) for line in TRUTH.read_text().splitlines()]


@pytest.mark.parametrize("row", [row for row in MEASURED if row["model"] == "opt-125m"], ids=lambda row: row["name"])
def test_both_loops_take_what_they_took_on_the_gpu(row):
    found = predicted(case_of(row), [one["batch_size"] for one in row["rows"]])

    assert found["maximum"] == row["maximum"]
    for said, was in zip(found["rows"], row["rows"], strict=True):
        assert said["allocated"] == pytest.approx(was["allocated"], rel=0.002)
