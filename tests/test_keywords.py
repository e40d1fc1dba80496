"""The options of the command line as keywords of Python."""

import pytest

from memorymark.errors import UsageError
from memorymark.keywords import in_python_terms


@pytest.mark.parametrize(
    ("said", "in_python"),
    [
        ("--margin is a fraction from 0.", "margin= is a fraction from 0."),
        ("drop --gpu, --device and --memory-gib.", "drop gpu=, device= and memory_gib=."),
        ("--gpu a10 or --device cuda:1; drop one.", 'gpu="a10" or device="cuda:1"; drop one.'),
        ("try --precision bf16, or --lora 16.", 'try precision="bf16", or lora=16.'),
        ("--accumulate must be 1 or more.", "accumulate= must be 1 or more."),
        ("no option at all -- none.", "no option at all -- none."),
    ],
)
def test_errors_name_keywords(said, in_python):
    with pytest.raises(UsageError) as caught, in_python_terms():
        raise UsageError(said)

    assert str(caught.value) == in_python
