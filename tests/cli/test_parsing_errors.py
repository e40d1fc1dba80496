"""What the parser of the command line refuses, as data."""

import pytest

from support.command_line import document, run_here


@pytest.mark.parametrize(
    ("arguments", "given", "change"),
    [
        (("--precison", "bf16"), "bf16", {"precison": None, "precision": "bf16"}),
        (("--precison=bf16",), "bf16", {"precison": None, "precision": "bf16"}),
        (("--fuzed", "-q"), None, {"fuzed": None, "fused": True}),
    ],
)
def test_an_option_that_there_is_not_is_answered_with_the_one_that_was_meant(arguments, given, change):
    told = document(run_here("predict", "bert", *arguments, "--json"))

    assert (told["code"], told["field"], told["given"]) == ("unknown_option", next(iter(change)), given)
    assert change in [one["change"] for one in told["suggestions"]]
    assert set(change) - {told["field"]} < set(told["allowed"])


@pytest.mark.parametrize(
    ("arguments", "code", "field", "given", "allowed"),
    [
        (("history", "--limit", "0"), "malformed", "limit", "0", {"minimum": 1, "maximum": 10_000}),
        (("predict", "bert", "-b", "many"), "malformed", "batch_size", "many", None),
        (("predict",), "missing", "model", None, None),
        (("frobnicate",), "usage", None, None, None),
    ],
)
def test_what_does_not_parse_is_told_with_its_option(arguments, code, field, given, allowed):
    result = run_here(*arguments, "--json")

    told = document(result)
    assert result.returncode == 2
    assert (told["code"], told["field"], told["given"], told["allowed"]) == (code, field, given, allowed)
