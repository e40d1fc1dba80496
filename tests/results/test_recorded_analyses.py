"""Analyses measured on a GPU, worked out again from their trials."""

import pytest

from support.recorded_analyses import recorded

CASES = ["bert_fp32", "gpt2_fp32", "resnet_bf16"]


@pytest.mark.parametrize("name", CASES)
def test_recommendation_and_speedup_follow_from_the_trials(name):
    _, analysis = recorded(name)
    best = max(trial.samples_per_second or 0 for trial in analysis.curve)
    recommended = analysis.recommended
    assert recommended.samples_per_second >= 0.95 * best
    assert recommended.peak_reserved_bytes <= 0.95 * analysis.info.capacity_bytes
    smaller = [trial for trial in analysis.curve if trial.batch_size < recommended.batch_size]
    assert all((trial.samples_per_second or 0) < 0.96 * best for trial in smaller)
    assert analysis.speedup == recommended.samples_per_second / analysis.current.samples_per_second
    assert 1 < analysis.speedup < analysis.batch_ratio


@pytest.mark.parametrize("name", CASES)
def test_parts_of_every_breakdown_add_up_to_what_the_device_held(name):
    _, analysis = recorded(name)
    timed = [trial for trial in analysis.trials if trial.breakdown]
    assert len(timed) >= 7
    for trial in timed:
        assert trial.breakdown.total_bytes == trial.device_bytes
        assert min(vars(trial.breakdown).values()) >= 0


def test_batch_at_which_the_allocator_retries_is_thrashing_and_not_recommended():
    _, analysis = recorded("resnet_bf16")
    assert analysis.thrashing == {507}
    assert analysis.recommended.batch_size not in analysis.thrashing


def test_largest_fitting_trial_was_run_and_the_next_one_failed():
    for name in ("bert_fp32", "gpt2_fp32"):
        _, analysis = recorded(name)
        assert analysis.max_is_exact
        assert analysis.limited_by == "memory"
