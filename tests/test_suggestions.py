"""Changes to a question that a caller can apply."""

import pytest

from memorymark.suggestions import Proposal, Suggestion, meant, renamed, without
from memorymark.units import GIB


def checked(**change):
    return Suggestion(change=change, recipe="LoRA rank 16", max_batch_size=3, device_bytes=GIB, total_bytes=2 * GIB)


@pytest.mark.parametrize("one", [checked(gpu="h200"), Proposal("bert", {"model": "bert"})], ids=["checked", "meant"])
def test_a_suggestion_reads_back_as_it_was(one):
    assert type(one).from_dict({**one.to_dict(), "of a newer version": 1}) == one


@pytest.mark.parametrize(
    ("parts", "label"),
    [
        ({"recipe": "bf16", "gpu_name": "A10"}, "bf16 on A10"),
        ({"recipe": "bf16"}, "bf16"),
        ({"gpu_name": "A10"}, "A10"),
        ({"without_cap": True}, "no memory cap"),
    ],
)
def test_a_way_to_fit_has_a_few_words_for_a_button(parts, label):
    assert Suggestion(change={}, max_batch_size=1, device_bytes=1, total_bytes=1, **parts).label == label


def test_what_was_meant_is_a_change_for_each():
    assert [one.to_dict() for one in meant("gpu", ["a10", "a10g"])] == [
        {"label": "a10", "change": {"gpu": "a10"}},
        {"label": "a10g", "change": {"gpu": "a10g"}},
    ]


def test_an_option_that_was_meant_takes_over_the_value():
    assert renamed("precison", "bf16", ["precision"])[0].change == {"precison": None, "precision": "bf16"}


def test_an_option_is_left_out_or_has_its_usual_value():
    assert without("task").change == {"task": None}
    assert without("channels_last", usual=False) == Proposal("without channels last", {"channels_last": False})
