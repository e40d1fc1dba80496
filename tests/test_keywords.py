"""The options of a question as keywords of Python."""

import subprocess
import sys
from pathlib import Path

import pytest

import memorymark as mm
from memorymark.keywords import split_lengths

ROOT = Path(__file__).parents[1]


def test_a_slip_in_a_keyword_is_answered_with_what_was_perhaps_meant():
    with pytest.raises(mm.UsageError, match="'precison' is not an option here: did you mean precision") as caught:
        mm.analyze("bert", precison="bf16")

    assert (caught.value.code, caught.value.field) == ("unknown_option", "precison")
    assert caught.value.suggestions[0].change == {"precison": None, "precision": "bf16"}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (None, {}),
        (128, {"seq_len": 128}),
        ([128, 512, 128], {"seq_lens": (128, 512)}),
        ("many", {"seq_len": "many"}),  # refused later, by its type
    ],
)
def test_one_length_or_several_may_be_asked_for(given, asked):
    assert split_lengths(given) == asked


def test_what_is_no_length_among_several_is_refused():
    with pytest.raises(
        mm.UsageError, match=r"seq_len= must be a whole number or a list of them; the list contains 1\.5"
    ):
        split_lengths([128, 1.5])


def test_the_types_for_editors_are_those_of_the_declared_options():
    checked = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_keywords.py", "--check"], capture_output=True, text=True
    )

    assert (checked.returncode, checked.stderr) == (0, "")
