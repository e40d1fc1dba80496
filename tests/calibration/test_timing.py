"""Timing single operations, on the CPU: what is timed, and what it runs on a GPU."""

import time

import pytest

import memorymark as mm
from memorymark.calibration.host_step import time_host_step
from memorymark.calibration.operations import CALL
from memorymark.calibration.plan import planned_cases
from memorymark.calibration.timing import runs_of, time_case, time_copies, timed
from memorymark.devices import open_device
from memorymark.prediction.calibration.correction import Correction
from support.profiles import SHIPPED

HOPPER = (9, 0)
PRODUCT = {"kind": "product", "batch": 1, "m": 64, "n": 32, "k": 16, "type": "fp32", "layout": "nn"}
TOO_LARGE = {**PRODUCT, "m": 2**40, "n": 2**40}


@pytest.fixture
def cpu():
    return open_device(mm.Target(device="cpu"))


def test_an_operation_is_timed_with_what_it_runs(cpu):
    found = time_case(PRODUCT, cpu, HOPPER)

    assert found.case == PRODUCT
    assert found.runs == [
        [
            "aten.mm.default",
            [[[64, 16], "float32", True, False], [[16, 32], "float32", True, False]],
            [[[64, 32], "float32", True, False]],
            [],
        ]
    ]
    assert 0 < found.seconds < 1
    assert 0 < found.host_seconds < 1


def test_a_larger_product_takes_longer(cpu):
    large = {**PRODUCT, "m": 512, "n": 512, "k": 512}

    assert time_case(large, cpu, HOPPER).seconds > time_case(PRODUCT, cpu, HOPPER).seconds


def test_what_cannot_run_here_is_passed_over(cpu):
    first, second, third = timed([PRODUCT, TOO_LARGE, PRODUCT], cpu, HOPPER, time.monotonic() + 60)

    assert second is None
    assert first.runs == third.runs


def test_when_the_time_is_up_nothing_more_is_timed(cpu):
    assert list(timed([PRODUCT], cpu, HOPPER, time.monotonic() - 1)) == []


def test_copies_have_a_rate(cpu):
    assert all(rate > 1e6 for rate in time_copies(cpu, 2**20))


def test_the_hosts_step_is_timed_and_its_calls_are_counted(cpu):
    host = time_host_step(cpu, HOPPER)

    assert host.updated_tensors == 24 * 4
    assert host.eager_calls >= 24 * 3
    assert host.autograd_calls > host.eager_calls
    assert 0 < host.seconds < 10


def test_the_plan_names_operations_that_can_be_made_and_profiles_have_the_same():
    cases = planned_cases()

    assert {case["kind"] for case in cases} == set(CALL)
    assert [one.case for one in SHIPPED.operations] == cases


@pytest.mark.parametrize("place", range(0, 600, 60))
def test_what_a_case_runs_on_a_gpu_is_what_the_profile_says(place):
    assert runs_of(planned_cases()[place], HOPPER) == SHIPPED.operations[place].runs


def test_the_plan_starts_with_some_of_each_kind():
    assert {case["kind"] for case in planned_cases()[:150]} == set(CALL)


def test_most_of_what_is_timed_counts():
    from memorymark.catalog import find_gpu

    assert len(Correction(SHIPPED, find_gpu("h200")).points) > 0.75 * len(SHIPPED.operations)
