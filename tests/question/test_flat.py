"""A question as flat options, and back."""

import pytest

from memorymark.question.flat import OPTIONS, make_question, over_http
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from memorymark.server.bodies import JobBody
from memorymark.units import GIB

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
QUESTIONS = [
    Question(request=Request(model="bert")),
    Question(request=Request(model="gpt2", recipe=Recipe(precision="bf16", train_mode=False)), all_gpus=True),
    Question(request=Request(model="gpt2"), seq_lens=(64, 128)),
    Question(
        request=Request(
            model="bert",
            small=False,
            recipe=Recipe(lora=8, accumulation_steps=2),
            target=Target(gpu="l4", memory_cap_bytes=3 * GIB),
        ),
        current_batch_size=7,
        margin=0.07,
        usage=Usage(people=3),
        advise=True,
        try_compile=False,
    ),
    Question(request=Request(model="mine", config=LLAMA, seq_len=48)),
    Question(request=Request(model="", config=LLAMA)),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.request.model)
def test_what_is_told_over_http_asks_the_same_again(question):
    assert JobBody(**over_http(question)).question() == question


def test_only_what_is_not_as_declared_is_told():
    assert over_http(QUESTIONS[0]) == {"model_name": "bert"}
    assert over_http(QUESTIONS[2]) == {"model_name": "gpt2", "seq_lens": [64, 128]}


def test_a_config_without_a_name_is_told_without_one():
    assert over_http(QUESTIONS[-1]) == {"config": LLAMA}
    assert over_http(QUESTIONS[-2])["model_name"] == "mine"


def test_every_option_can_be_asked_for():
    assert make_question({"model": "bert"}) == Question(request=Request(model="bert"))
    assert {one.http_name for one in OPTIONS.values()} <= set(JobBody.model_fields)
