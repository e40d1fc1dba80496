"""Options that there are not."""

from memorymark.checks.options import unknown_option

KNOWN = ("precision", "optimizer", "seq_len")


def test_a_slip_is_answered_with_the_option_that_was_meant_and_keeps_its_value():
    error = unknown_option("precison", "bf16", KNOWN, "see docs/python.md for the options")

    assert str(error) == "'precison' is not an option here: did you mean precision? See docs/python.md for the options."
    assert (error.code, error.field, error.given, error.allowed) == (
        "unknown_option", "precison", "bf16", list(KNOWN),
    )  # fmt: skip
    assert [one.to_dict() for one in error.suggestions] == [
        {"label": "precision", "change": {"precison": None, "precision": "bf16"}}
    ]


def test_an_option_of_something_else_is_told_why_it_is_none_here():
    error = unknown_option("seq_len", 8, KNOWN, "a Workload makes its own batches")

    assert str(error) == "'seq_len' is not an option here: a Workload makes its own batches."
    assert error.suggestions == []
