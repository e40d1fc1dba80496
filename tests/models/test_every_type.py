"""Every model type of the installed transformers is in the record of what is predicted, and a sample of it still holds.

The whole list is asked again by benchmarks/every_type.py, which takes an hour.
"""

import json

import pytest
import torch
import transformers

from every_type import ANSWERED, RECORD, outcome, pairs, recorded
from memorymark.models.known_values import without_data

OUTCOMES = recorded()
LEAST_SHARE = 0.95
CANNOT_BE_ASKED = "needs a library that is not installed"
# One of each task: quick ones of different kinds.
SAMPLE = [
    ("qwen3", "causal-lm"),
    ("xmod", "masked-lm"),
    ("bros", "token-classification"),
    ("nemotron", "question-answering"),
    ("esm", "sequence-classification"),
    ("bert", "multiple-choice"),
    ("siglip2", "image-classification"),
    ("glm4v", "image-text-to-text"),
    ("yolos", "object-detection"),
    ("table-transformer", "object-detection"),
    ("longformer", "question-answering"),
    ("musicgen", "causal-lm"),
    ("imagegpt", "image-classification"),
    ("fun_asr_nano", "speech-seq2seq"),
    ("videomae", "video-classification"),
    ("vit", "masked-image-modeling"),
    ("moonshine", "speech-seq2seq"),
    ("wav2vec2", "audio-frame-classification"),
    ("wavlm", "audio-xvector"),
]
same_version = pytest.mark.skipif(
    json.loads(RECORD.read_text())["transformers"] != transformers.__version__,
    reason="the record was made with another version of transformers",
)


@same_version
def test_every_type_of_every_task_is_in_the_record():
    assert set(pairs()) == OUTCOMES.keys()


def test_nearly_all_of_what_could_be_asked_was_answered_and_nothing_crashed():
    asked = [what for what in OUTCOMES.values() if CANNOT_BE_ASKED not in what]

    assert not [what for what in asked if what.startswith("CRASH")]
    assert asked.count(ANSWERED) >= LEAST_SHARE * len(asked)


@same_version
@pytest.mark.parametrize(("family", "task"), SAMPLE)
def test_what_the_record_says_is_answered_is(family, task):
    assert OUTCOMES[family, task] == ANSWERED
    assert outcome(family, task) == ANSWERED


@same_version
def test_a_refusal_is_a_sentence():
    said = outcome("ibert", "masked-lm")

    assert said.startswith("the model reads a value")
    assert "Error" not in said


def test_small_numbers_are_known_without_data():
    with without_data():
        grid = torch.tensor([[1, 4, 6]])
        rows = torch.empty(int(grid.prod()), 8)
        assert rows[torch.arange(24) < grid[0, 1]].shape == (4, 8)
