"""Options with a few values, and what is told of a value that is none of them."""

import pytest

from memorymark.checks.choices import Choice
from memorymark.errors import UsageError

PRECISION = Choice("precision", ("fp32", "bf16"), {"bfloat16": "bf16"})


def refused(given):
    with pytest.raises(UsageError) as caught:
        PRECISION.read(given)
    return caught.value


@pytest.mark.parametrize("given", ["bf16", "BF16", "bf-16", "bfloat16", "torch.bfloat16"])
def test_a_value_is_understood_however_it_is_spelled(given):
    assert PRECISION.read(given) == "bf16"


def test_a_slip_is_answered_with_the_change_that_mends_it():
    error = refused("bf61")

    assert (error.code, error.field, error.given, error.allowed) == (
        "unknown_choice", "precision", "bf61", ["fp32", "bf16"],
    )  # fmt: skip
    assert [one.change for one in error.suggestions] == [{"precision": "bf16"}]
    assert str(error) == "unknown precision 'bf61': did you mean bf16? The values are fp32, bf16."


@pytest.mark.parametrize("given", ["quux", 7, None, "{margin}"])
def test_what_is_near_to_nothing_is_answered_with_all_values(given):
    error = refused(given)

    assert (error.given, error.suggestions) == (given, [])
    assert str(error) == f"unknown precision {given!r}; use one of fp32, bf16."
