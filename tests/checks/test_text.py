"""What counts as text, and how deep a document may be."""

import pytest

from memorymark.checks.text import MOST_LEVELS, is_text, require_text
from memorymark.errors import UsageError
from memorymark.question.request import Request
from memorymark.question.target import Target


@pytest.mark.parametrize("text", ["", "bert", "naïve", "模型", "🦙", "\x1b[1m", "\ufffd", "\U0010ffff"], ids=ascii)
def test_text_is_text(text):
    assert is_text(text)
    require_text({"a": [text, {text: text}]}, "it")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800", "\0", "é\0", "a\0b"], ids=ascii)
def test_half_a_character_and_a_nul_are_none_wherever_they_are(text):
    assert not is_text(text)
    for document in (text, [text], (1, (text,)), {"a": {"b": [text]}}, {"a": {text: 1}}):
        with pytest.raises(UsageError, match=r"^it contains .*\.$"):
            require_text(document, "it")


def test_a_document_may_be_so_deep_and_no_deeper():
    document = deepest = 1
    for _ in range(MOST_LEVELS):
        document = [document]
    for _ in range(100_000):
        deepest = {"a": deepest}

    require_text(document, "it")
    for too_deep in ([document], deepest):
        with pytest.raises(UsageError, match=f"it is nested more than {MOST_LEVELS} levels deep"):
            require_text(too_deep, "it")
    while isinstance(deepest, dict):  # or Python frees it level by level, in itself
        deepest = deepest["a"]


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "a\ud800/b"},
        {"model": "be\0rt"},
        {"model": "a/b", "revision": "\udfff"},
        {"config": {"model_type": "resnet", "layer_type": "\ud800"}},
        {"config": {"model_type": "resnet", "\ud800": 1}},
    ],
    ids=ascii,
)
def test_a_request_made_in_python_holds_text_too(fields):
    with pytest.raises(UsageError, match="not text"):
        Request(**fields)
    with pytest.raises(UsageError, match="not text"):
        Target(gpu="\ud800")
