import math
from itertools import product

import pytest

from memorymark.errors import UsageError
from memorymark.question.usage import Usage
from memorymark.results.cost import Savings, savings, usd_per_million_samples


def test_twice_as_fast_saves_half_of_each_run_for_everybody():
    usage = Usage(hours_per_run=4, runs_per_year=50, people=3)

    assert savings(1.5, usage, speedup=2) == Savings(per_run_usd=3.0, per_year_usd=450.0)


@pytest.mark.parametrize(("speedup", "per_run"), [(1.0, 0.0), (0.5, -2.0), (1e9, 2.0)])
def test_savings_are_nothing_for_no_speedup_negative_for_a_slowdown_and_never_above_the_cost(speedup, per_run):
    assert savings(1.0, Usage(), speedup).per_run_usd == pytest.approx(per_run)


def test_the_default_usage_is_one_person_with_a_hundred_runs_of_two_hours():
    assert savings(1.0, Usage(), speedup=2).per_year_usd == 100.0


def test_a_million_samples_cost_the_hours_that_they_take():
    assert usd_per_million_samples(3.6, samples_per_second=500) == pytest.approx(2.0)  # 2000 seconds


@pytest.mark.parametrize(
    ("field", "value"),
    [*product(["hours_per_run", "runs_per_year"], [0, -1, math.nan, math.inf]), ("people", 0), ("people", -1)],
)
def test_usage_must_be_a_positive_number_and_the_error_names_the_option(field, value):
    with pytest.raises(UsageError, match=f"{field}= must be .*, not {value}"):
        Usage(**{field: value})
