"""Correcting predicted times: the truth of invented GPUs, the rules times known factors, is found again."""

import random
from dataclasses import replace
from math import exp, log
from statistics import median

import pytest

from memorymark.catalog import find_gpu
from memorymark.prediction.calibration.correction import Correction, by_rules
from memorymark.prediction.calibration.likeness import traits_of
from memorymark.prediction.calibration.written import read_operation, write_operation
from memorymark.prediction.timing.roofline import KERNEL_GAP_SECONDS
from memorymark.profiles.profile import HostStep
from support.profiles import SHIPPED, invented

T4, A10 = find_gpu("t4"), find_gpu("a10")
# Operations that are timed, and others of which the truth is known too.
TIMED, OTHERS = SHIPPED.operations[::2], SHIPPED.operations[1::2]
FACTORS = {"product": 0.6, "attention": 1.5, "convolution": 2.2, "depthwise convolution": 0.8, "norm": 1.1}


def mains(operations, gpu):
    """The longest operation of each call, with what the rules say."""
    for one in operations:
        tf32, runs = one.case.get("type") == "tf32", [read_operation(run) for run in one.runs]
        op = max(runs, key=lambda run: by_rules(run, gpu, tf32))
        predicted = by_rules(op, gpu, tf32)
        yield op, tf32, predicted, traits_of(op, gpu, predicted - KERNEL_GAP_SECONDS, tf32=tf32)


def errors(correction, gpu, factor, operations=OTHERS):
    """How far operations that were not timed are off after the correction, as logarithms."""
    found = []
    for op, tf32, predicted, traits in mains(operations, gpu):
        true = (predicted - KERNEL_GAP_SECONDS) * factor(traits)
        corrected = correction.seconds(op, predicted, tf32=tf32) - KERNEL_GAP_SECONDS
        found.append(abs(log(corrected / true)))
    return sorted(found)


def test_a_gpu_whose_rules_are_wrong_by_two_is_found_again():
    correction = Correction(invented("t4", lambda _: 2.0, operations=TIMED), T4)

    assert errors(correction, T4, lambda _: 2.0)[-1] < 0.02


def test_factors_of_families_are_found_again():
    def factor(traits):
        return FACTORS.get(traits.family, 1.0)

    found = errors(Correction(invented("a10", factor, operations=TIMED), A10), A10, factor)

    assert median(found) < 0.02
    assert found[int(0.95 * len(found))] < 0.1


def test_a_factor_that_changes_with_the_size_is_found_again():
    def factor(traits):
        return exp(0.2 * (traits.size - log(1e-4)))

    found = errors(Correction(invented("a10", factor, operations=TIMED), A10), A10, factor)
    before = sorted(abs(log(factor(traits))) for *_, traits in mains(OTHERS, A10))

    assert median(found) < 0.1 * median(before)


def test_factors_are_found_again_among_scattered_operations():
    chance = random.Random(7)

    def factor(traits):
        return FACTORS.get(traits.family, 1.0)

    profile = invented("a10", factor, operations=TIMED)
    scattered = [replace(one, seconds=one.seconds * exp(chance.gauss(0, 0.3))) for one in profile.operations]
    correction = Correction(replace(profile, operations=scattered), A10)

    assert median(errors(correction, A10, factor)) < 0.15
    assert correction.scatter["convolution"] == pytest.approx(0.3, abs=0.1)


def test_where_the_rules_are_right_nothing_changes():
    correction = Correction(invented("a10", lambda _: 1.0, operations=TIMED), A10)

    assert errors(correction, A10, lambda _: 1.0)[-1] < 1e-9


def test_what_was_never_timed_tends_to_what_its_likes_do():
    only = [one for one in TIMED if one.case["kind"] == "product"]
    correction = Correction(invented("a10", lambda _: 2.0, operations=only), A10)

    ratios = [correction.ratio(traits) for *_, traits in mains(OTHERS, A10) if traits.family == "convolution"]

    assert all(1.4 < ratio < 2.0 for ratio in ratios)


def test_a_profile_of_nothing_that_counts_corrects_nothing():
    waiting = [replace(one, host_seconds=one.seconds) for one in SHIPPED.operations[:30]]
    correction = Correction(replace(SHIPPED, operations=waiting), A10)
    op, tf32, predicted, _ = next(mains(OTHERS, A10))

    assert correction.points == []
    assert correction.seconds(op, predicted, tf32=tf32) == predicted


def test_the_gap_between_kernels_is_never_corrected():
    correction = Correction(invented("a10", lambda _: 3.0, operations=TIMED), A10)
    op, *_ = next(mains(OTHERS, A10))

    assert correction.seconds(op, KERNEL_GAP_SECONDS, tf32=False) == KERNEL_GAP_SECONDS


def test_a_host_that_takes_twice_as_long_is_found():
    counts = {"eager_calls": 100, "autograd_calls": 150, "views": 80, "updated_tensors": 50}
    seconds = 0.6e-3 + 100 * 49e-6 + 150 * 8e-6 + 80 * 5.4e-6 + 50 * 32e-6
    profile = invented("a10", lambda _: 1.0, operations=TIMED[:9], host=HostStep(seconds=2 * seconds, **counts))

    assert Correction(profile, A10).host_ratio == pytest.approx(2.0)
    assert Correction(replace(profile, host=None), A10).host_ratio == 1.0


def test_the_slower_direction_of_the_link_counts():
    profile = invented(
        "a10", lambda _: 1.0, operations=TIMED[:9], to_device_bytes_per_second=20e9, to_host_bytes_per_second=18e9
    )

    assert Correction(profile, A10).gpu.host_link_bytes_per_second == 18e9


def test_an_operation_is_read_back_as_it_was_timed():
    op = read_operation(SHIPPED.operations[0].runs[0])

    assert write_operation(op) == SHIPPED.operations[0].runs[0]


def test_a_type_that_is_none_is_refused():
    with pytest.raises((AttributeError, TypeError)):
        read_operation(["aten.relu.default", [[[4], "nn", True, False]], [], []])
