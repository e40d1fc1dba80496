from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorymark.catalog import all_gpus, find_gpu
from memorymark.prediction.timing.known import known_operations, split_unknown, untimed_operations
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.question.recipe import Recipe
from memorymark.results import uncertainty
from memorymark.results.trial import Trial
from memorymark.results.uncertainty import MEASURED_GPUS, maximum_interval
from memorymark.units import GIB, MIB
from support.operations import operation, program, tensor
from support.tiny import tiny

H200, A100 = find_gpu("h200"), find_gpu("a100-40gb")
TRIAL = Trial(
    batch_size=64,
    fits=True,
    source="predicted",
    peak_allocated_bytes=10 * GIB,
    peak_reserved_bytes=11 * GIB,
    resting_bytes=2 * GIB,
    device_bytes=11 * GIB + H200.context_bytes[1],
    step_seconds=0.25,
    samples_per_second=256.0,
)


def trial_intervals(trial, gpu, *, certain, timed=None, capacity_bytes=None):
    """The intervals of a trial within this memory, or within all that the GPU has."""
    capacity = gpu.usable_bytes if capacity_bytes is None else capacity_bytes
    timed = certain if timed is None else timed
    return uncertainty.trial_intervals(trial, gpu, certain=certain, timed=timed, capacity_bytes=capacity)


@pytest.mark.parametrize("certain", [True, False])
def test_intervals_contain_what_was_predicted(certain):
    intervals = trial_intervals(TRIAL, H200, certain=certain)
    assert set(intervals) >= {"peak_allocated_bytes", "device_bytes", "step_seconds", "samples_per_second"}
    for name, (low, high) in intervals.items():
        assert 0 < low < getattr(TRIAL, name) < high


def test_no_less_is_reserved_than_allocated():
    tight = replace(TRIAL, peak_reserved_bytes=TRIAL.peak_allocated_bytes)
    intervals = trial_intervals(tight, H200, certain=True)
    least = intervals["peak_allocated_bytes"][0]
    assert intervals["peak_reserved_bytes"][0] >= least
    assert intervals["device_bytes"][0] >= least


def test_the_device_holds_what_is_reserved_and_the_least_or_the_most_of_a_context():
    intervals = trial_intervals(TRIAL, H200, certain=True)
    (low, high), (device_low, device_high) = intervals["peak_reserved_bytes"], intervals["device_bytes"]
    assert (device_low - low, device_high - high) == (H200.context_bytes[0], H200.context_bytes[2])


@pytest.mark.parametrize("certain", [True, False])
def test_what_fits_takes_no_more_than_there_is(certain):
    capacity = TRIAL.peak_reserved_bytes + MIB
    intervals = trial_intervals(TRIAL, H200, certain=certain, capacity_bytes=capacity)
    assert intervals["peak_reserved_bytes"][1] == capacity
    assert intervals["peak_allocated_bytes"][1] <= capacity


def test_the_device_holds_no_more_than_it_has():
    full = replace(TRIAL, peak_allocated_bytes=H200.usable_bytes, peak_reserved_bytes=H200.usable_bytes)
    intervals = trial_intervals(full, H200, certain=True)
    assert intervals["peak_allocated_bytes"][1] == intervals["peak_reserved_bytes"][1] == H200.usable_bytes
    assert intervals["device_bytes"][1] == H200.torch_memory_bytes


@pytest.mark.parametrize("certain", [True, False])
def test_the_slowest_step_is_the_lowest_throughput_and_the_other_way_round(certain):
    intervals = trial_intervals(TRIAL, A100, certain=certain)
    (fastest, slowest), samples = intervals["step_seconds"], TRIAL.batch_size
    assert intervals["samples_per_second"] == pytest.approx((samples / slowest, samples / fastest))
    assert 0 < fastest < TRIAL.step_seconds < slowest


def test_however_uncertain_a_time_is_it_is_no_tenth_of_what_is_predicted():
    fastest, slowest = trial_intervals(TRIAL, A100, certain=False)["step_seconds"]
    assert TRIAL.step_seconds / 4 < fastest < TRIAL.step_seconds < slowest < 4 * TRIAL.step_seconds


def test_a_trial_without_a_time_has_no_interval_of_it():
    intervals = trial_intervals(replace(TRIAL, step_seconds=None, samples_per_second=None), H200, certain=True)
    assert set(intervals) == {"peak_allocated_bytes", "peak_reserved_bytes", "device_bytes"}


def assert_wider(wide, narrow):
    assert wide.keys() == narrow.keys()
    for name, (low, high) in narrow.items():
        assert wide[name][0] < low < high < wide[name][1]


def test_intervals_are_wider_where_operations_are_unknown():
    for gpu in (H200, A100):
        assert_wider(trial_intervals(TRIAL, gpu, certain=False), trial_intervals(TRIAL, gpu, certain=True))


def test_where_only_time_was_never_measured_only_its_intervals_are_wider():
    untimed, usual = (trial_intervals(TRIAL, H200, certain=True, timed=timed) for timed in (False, True))
    of_time = {"step_seconds", "samples_per_second"}
    assert_wider({name: untimed[name] for name in of_time}, {name: usual[name] for name in of_time})
    assert all(untimed[name] == usual[name] for name in usual.keys() - of_time)


def test_intervals_are_wider_for_a_gpu_that_nobody_measured():
    elsewhere = replace(H200, id="another")
    assert_wider(trial_intervals(TRIAL, elsewhere, certain=True), trial_intervals(TRIAL, H200, certain=True))


def test_the_measured_gpus_are_in_the_catalog():
    assert {gpu.id for gpu in all_gpus()} >= MEASURED_GPUS > set()


def trials(*sizes):
    """Trials whose memory grows by 100 MiB a sample."""
    return [Trial(batch_size=n, fits=True, peak_allocated_bytes=GIB + n * 100 * MIB, resting_bytes=GIB) for n in sizes]


def interval(maximum, gpu=H200, *, certain=True, capped=False, tried=None):
    return maximum_interval(maximum, tried or trials(1, maximum), gpu, certain=certain, capped=capped)


@settings(deadline=None)
@given(maximum=st.integers(1, 10**6), gpu=st.sampled_from(all_gpus()), certain=st.booleans(), capped=st.booleans())
def test_the_interval_of_a_maximum_contains_it_and_is_not_negative(maximum, gpu, certain, capped):
    low, high = interval(maximum, gpu, certain=certain, capped=capped)
    assert 0 <= low < maximum < high


def test_the_interval_of_a_maximum_counts_a_larger_or_smaller_context_in_samples():
    unsure, sure = (replace(H200, context_bytes=tuple(mib * MIB for mib in c)) for c in ((0, 1000, 4000), (1000,) * 3))
    (low, high), (fixed_low, fixed_high) = interval(100, unsure), interval(100, sure)
    assert (fixed_low - low, high - fixed_high) == (30, 10)


def test_under_a_cap_the_context_does_not_matter():
    unsure, sure = (replace(H200, context_bytes=tuple(mib * MIB for mib in c)) for c in ((0, 1000, 4000), (1000,) * 3))
    assert interval(100, unsure, capped=True) == interval(100, sure, capped=False) == interval(100, sure, capped=True)


def test_a_small_maximum_may_be_nothing_but_not_less():
    light = [Trial(batch_size=1, fits=True, peak_allocated_bytes=GIB + MIB, resting_bytes=GIB)]
    assert interval(1, tried=light)[0] == 0


def test_a_maximum_is_less_certain_where_operations_are_unknown_or_nobody_measured_the_gpu():
    low, high = interval(1000)
    for lower, higher in (interval(1000, certain=False), interval(1000, replace(H200, id="another"))):
        assert lower < low < high < higher


def test_what_does_not_fit_says_nothing_about_a_sample():
    failed = Trial(batch_size=101, fits=False, peak_allocated_bytes=GIB)
    assert interval(100, tried=[*trials(100), failed]) == interval(100, tried=trials(100))


def test_operations_that_nobody_measured_are_named_once_and_in_order():
    def launching(name):
        return operation(name, [tensor(4, 8)], [tensor(4, 8)])

    names = ["aten.zeta.default", "aten.mm.default", "aten.made_up.default", "aten.view.default", "aten.zeta.default"]
    step = program(("forward", [launching(name) for name in names]), ("backward", [operation("phase end")]))
    assert {"aten.mm.default"} <= known_operations()
    assert split_unknown(step) == (("aten.made_up.default", "aten.zeta.default"), ())


def test_operations_that_were_measured_but_not_timed_are_told_from_those_that_nobody_measured():
    untimed = "memorymark.dequantize_4bit.default"
    assert untimed in untimed_operations()
    assert not untimed_operations() & known_operations()
    calls = [operation(name, [tensor(4, 8)], [tensor(4, 8)]) for name in (untimed, "aten.made_up.default")]
    step = program(("forward", calls), ("backward", [operation("phase end")]))
    assert split_unknown(step) == (("aten.made_up.default",), (untimed,))


def test_operations_that_work_element_by_element_are_all_as_certain():
    names = ["aten.eq.Tensor", "aten.logical_xor.default", "aten.kthvalue.default"]
    assert not {*names} & known_operations()
    calls = [operation(name, [tensor(4, 8)], [tensor(4, 8)]) for name in names]
    step = program(("forward", calls), ("backward", [operation("phase end")]))
    assert split_unknown(step) == (("aten.kthvalue.default",), ())


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(precision="bf16"), Recipe(optimizer="sgd"), Recipe(fused=True)])
def test_the_operations_of_an_ordinary_model_are_all_known(recipe):
    assert split_unknown(trace_training(tiny(), recipe, (9, 0)).later) == ((), ())
