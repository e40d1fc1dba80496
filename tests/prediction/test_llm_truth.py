"""Fine-tunings of language models against what an NVIDIA H200 really did; benchmarks/llm.py compares all of them."""

import json
from statistics import median

import pytest

from llm import RECORD, case_of, compare, truth
from support.torch_versions import needs_torch_of_records

TRUE = {case_of(true).key: true for true in truth()}
WRITTEN = {
    f"{case['model']} {case['name']} {case['seq_len']}": case for case in json.loads(RECORD.read_text())["cases"]
}
CHEAP = [
    "llama-3.2-3b QLoRA, paged 8-bit AdamW 1024",
    "qwen2.5-0.5b DPO 1024",
]


@needs_torch_of_records
@pytest.mark.parametrize("key", CHEAP)
def test_a_fine_tuning_takes_what_it_took_on_the_gpu(key):
    found, written = compare(TRUE[key]), WRITTEN[key]

    assert max(map(abs, found["allocated"])) < 0.0015
    assert max(map(abs, found["reserved"])) < 0.025
    assert found["predicted"] == found["largest"]
    assert found["allocated"] == pytest.approx(written["allocated"], abs=1e-4)


def test_all_that_was_measured_is_written_down_and_close():
    errors = [abs(error) for case in WRITTEN.values() for error in case["allocated"]]
    largest = [abs(case["predicted"] / case["largest"] - 1) for case in WRITTEN.values()]

    assert WRITTEN.keys() == TRUE.keys()
    assert len(WRITTEN) >= 30
    assert median(errors) < 0.001
    assert max(errors) < 0.04
    assert median(largest) < 0.02
