import pytest

from memorymark.errors import UsageError
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.usage import Usage


@pytest.mark.parametrize(
    ("options", "said", "change"),
    [
        ({"model": "resnet"}, "and resnet is trained for image classifiers", {"packed": False}),
        ({"model": "bert"}, "is for causal language models, and bert is trained for classifiers", {"packed": False}),
        ({"model": "llama-3.2-1b", "task": "dpo"}, "is trained for direct preference optimization", {"packed": False}),
        ({"model": "timm:resnet50"}, "whose batches are not made of texts", {"packed": False}),
        ({"model": "train.py:make"}, "whose batches are not made of texts", {"packed": False}),
        (
            {"model": "gpt2", "task": "sft", "seq_len": 512, "mean_tokens": 600},
            "no sample is longer than a row of 512",
            {"seq_len": 600},
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_in_one_sentence(options, said, change):
    with pytest.raises(UsageError, match=said) as raised:
        Request(packed=True, **options)

    assert change.items() <= raised.value.suggestions[0].change.items()


def test_a_mean_length_is_for_packed_samples():
    with pytest.raises(UsageError, match="is for packing; add packed=True, or drop it") as raised:
        Request(model="gpt2", mean_tokens=100)

    assert raised.value.suggestions[0].change == {"packed": True}


def test_a_run_on_packed_rows_is_counted_in_tokens():
    request = Request(model="gpt2", task="sft", packed=True)

    with pytest.raises(UsageError, match="a batch counts rows, not samples"):
        Question(request=request, usage=Usage(samples=1000))
    assert Question(request=request, usage=Usage(tokens=1000)).usage.tokens == 1000
