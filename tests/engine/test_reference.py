"""A frozen reference that is larger than the GPU is refused in a sentence."""

import pytest

import memorymark as mm
from memorymark.errors import UsageError


@pytest.mark.parametrize("task", [{"task": "dpo"}, {"task": "grpo", "reference": "kept"}], ids=str)
def test_a_reference_that_is_larger_than_the_gpu_is_refused_before_anything_is_built(task):
    with pytest.raises(UsageError) as caught:
        mm.analyze("llama-3.1-8b", gpu="l4", **task)
    assert (caught.value.field, caught.value.exit_code) == ("reference", 2)
    assert "29.92 GiB, more than the 21.65 GiB there are" in str(caught.value)
    assert caught.value.suggestions[0].change == {"weights": "nf4", "lora": 16, "precision": "bf16"}


def test_nothing_is_proposed_that_does_not_fit_either():
    with pytest.raises(UsageError) as caught:
        mm.analyze("llama-3.1-8b", gpu="t4", memory_gib=2, task="dpo", weights="fp16")
    assert not caught.value.suggestions


def test_what_a_config_builds_is_looked_at_once_it_is_known():
    from memorymark.engine.reference import check_reference
    from memorymark.question.request import Request
    from memorymark.results.probe_info import ProbeInfo

    info = ProbeInfo(
        device_kind="cuda",
        device_name="NVIDIA L4",
        total_bytes=200,
        capacity_bytes=100,
        capped=False,
        parameters=25,
        reference_bytes=101,
    )
    with pytest.raises(UsageError, match="larger GPU"):
        check_reference(Request(model="llama-3.1-8b", task="dpo"), info)
