"""Models of many families, named in every way, against what an NVIDIA H200 did with them."""

from statistics import median

import pytest

from any_model import against_record, cases, recorded, time_errors
from support.torch_versions import needs_torch_of_records

pytestmark = needs_torch_of_records
RECORDED = recorded()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    named = {family: (request, workload) for family, _, request, workload in cases(folder)}
    return {family: against_record(*named[family], record) for family, record in RECORDED.items()}


@pytest.mark.parametrize("family", RECORDED)
def test_the_peak_is_within_half_a_percent(found, family):
    for measured, predicted in found[family].pairs:
        assert predicted.peak_allocated_bytes == pytest.approx(measured.peak_allocated_bytes, rel=0.005)


@pytest.mark.parametrize("family", RECORDED)
def test_the_largest_batch_is_within_two_percent(found, family):
    assert abs(found[family].maximum_error) <= 0.02


@pytest.mark.parametrize("family", RECORDED)
def test_the_time_of_a_step_is_within_thirty_percent(found, family):
    assert max(time_errors(found[family].pairs), default=0) <= 0.3


def test_the_time_of_a_step_is_mostly_within_ten_percent(found):
    errors = [error for check in found.values() for error in time_errors(check.pairs)]

    assert len(errors) > 60
    assert median(errors) < 0.1
