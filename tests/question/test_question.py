import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memorymark.catalog import all_gpus, all_models, find_gpu, find_model
from memorymark.client import as_body
from memorymark.errors import UsageError
from memorymark.history import new_job
from memorymark.question.limits import NO_LIMIT
from memorymark.question.question import Question
from memorymark.question.recipe import FUSED_OPTIMIZERS, Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from memorymark.server.bodies import AnalyzeBody, JobBody

BERT = Request(model="bert")
PLAIN = Question(request=BERT)


@st.composite
def questions(draw):
    """Any question that is valid and that the interface has numbers for."""
    entry = draw(st.sampled_from(all_models()))
    size = draw(st.none() | st.integers(1, entry.max_sample_size))
    all_for_one = draw(st.booleans())
    money = st.floats(0, 1e9, allow_subnormal=False)
    some = st.floats(0, 1e9, exclude_min=True)
    return Question(
        request=Request(
            model=draw(st.sampled_from([entry.id, entry.huggingface_id, entry.id.upper()])),
            seq_len=size if entry.type == "nlp" else None,
            image_size=size if entry.type == "vision" else None,
            small=draw(st.none() | st.booleans()),
            recipe=draw(recipes(channels_last=entry.type == "vision")),
            target=Target() if all_for_one else draw(targets()),
        ),
        current_batch_size=draw(st.integers(1, NO_LIMIT)),
        max_batch=draw(st.none() | st.integers(1, NO_LIMIT)),
        margin=draw(st.floats(0, 1, exclude_max=True)),
        usage=Usage(hours_per_run=draw(some), runs_per_year=draw(some), people=draw(st.integers(1, NO_LIMIT))),
        price_per_hour=None if all_for_one else draw(st.none() | money),
        prices=draw(st.none() | st.just({"l4": 0.4, "a10": 0.0})) if all_for_one else None,
        all_gpus=all_for_one and not (some_gpus := draw(st.lists(st.sampled_from(all_gpus()), max_size=3))),
        compare_gpus=tuple(dict.fromkeys(gpu.id for gpu in some_gpus)) if all_for_one else (),
    )


@st.composite
def recipes(draw, *, channels_last):
    optimizer = draw(st.sampled_from(["adamw", "adam", "sgd", "adafactor", "none"]))
    return Recipe(
        precision=draw(st.sampled_from(["fp32", "bf16", "fp16"])),
        optimizer=optimizer,
        fused=optimizer in FUSED_OPTIMIZERS and draw(st.booleans()),
        gradient_checkpointing=draw(st.sampled_from(["none", "full", "selective"])),
        train_mode=draw(st.booleans()),
        loss=draw(st.sampled_from(["model", "mean"])),
        accumulation_steps=draw(st.integers(1, NO_LIMIT)),
        compile=draw(st.booleans()),
        tf32=draw(st.booleans()),
        channels_last=channels_last and draw(st.booleans()),
    )


@st.composite
def targets(draw):
    if draw(st.booleans()):
        gpu = draw(st.sampled_from(all_gpus()))
        return Target(gpu=gpu.id, memory_cap_bytes=draw(st.none() | st.integers(1, gpu.torch_memory_bytes)))
    device = draw(st.sampled_from(["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:17"]))
    return Target(device=device, memory_cap_bytes=draw(st.none() | st.integers(1, 2**48)))


@settings(deadline=None)
@given(question=questions())
def test_a_question_goes_through_json_unchanged(question):
    assert Question.from_dict(json.loads(json.dumps(question.to_dict()))) == question


@settings(deadline=None)
@given(question=questions())
def test_a_question_goes_over_http_unchanged(question):
    sent = json.loads(json.dumps(as_body(question)))

    body = JobBody(**sent)

    assert body.question() == question


@settings(deadline=None)
@given(question=questions(), fresh=st.booleans(), limit=st.none() | st.floats(0.001, 86_400))
def test_how_it_is_to_be_answered_goes_with_it(question, fresh, limit):
    body = JobBody(**as_body(question, fresh=fresh, time_limit=limit))

    assert (body.fresh, body.time_limit) == (fresh, limit)


def test_what_is_left_out_of_a_body_is_what_is_left_out_of_a_question():
    assert AnalyzeBody(model_name="bert").question() == PLAIN


@settings(deadline=None)
@given(one=questions(), other=questions())
def test_different_questions_have_different_keys(one, other):
    assume(one != other and find_model(one.request.model) != find_model(other.request.model))

    assert new_job(one, "cli").key != new_job(other, "cli").key


@pytest.mark.parametrize(
    "change",
    [
        {"current_batch_size": 8},
        {"max_batch": 64},
        {"margin": 0.1},
        {"usage": Usage(people=2)},
        {"price_per_hour": 1.0},
        {"all_gpus": True},
        {"compare_gpus": ("l4", "t4")},
        {"prices": {"a10": 0.5}},
        {"request": Request(model="gpt2")},
        {"request": Request(model="bert", seq_len=64)},
        {"request": Request(model="bert", recipe=Recipe(precision="bf16"))},
        {"request": Request(model="bert", target=Target(gpu="t4"))},
    ],
    ids=str,
)
def test_whatever_differs_makes_another_key(change):
    assert new_job(replace(PLAIN, **change), "cli").key != new_job(PLAIN, "cli").key


def test_the_same_question_has_the_same_key_whoever_asks_and_however_the_model_is_called():
    by_other_name = Question(request=Request(model="google-bert/bert-base-uncased"))

    assert new_job(PLAIN, "cli").key == new_job(PLAIN, "http").key == new_job(by_other_name, "cli").key


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"current_batch_size": 0}, "batch_size= must be 1 or more, not 0"),
        ({"current_batch_size": True}, "batch_size= must be a whole number, not True"),
        ({"current_batch_size": 2.5}, "batch_size= must be a whole number, not 2.5"),
        ({"current_batch_size": NO_LIMIT + 1}, "batch_size= must be from 1 to 2147483647"),
        ({"max_batch": -1}, "max_batch= must be 1 or more, not -1"),
        ({"margin": 1.0}, "margin= must be from 0 to below 1, not 1"),
        ({"margin": float("nan")}, "margin= must be from 0"),
        ({"price_per_hour": -1.0}, "price_per_hour= must be 0 or more, not -1"),
        ({"price_per_hour": float("inf")}, "price_per_hour= must be from 0 to"),
        (
            {"all_gpus": True, "price_per_hour": 1.0},
            "price_per_hour= is for one GPU; give .* as prices=",
        ),
        ({"all_gpus": True, "request": Request(model="bert", target=Target(gpu="a10"))}, "drop gpu=, device= and"),
        ({"all_gpus": True, "request": Request(model="bert", target=Target(device="cpu"))}, "drop gpu=, device= and"),
    ],
    ids=str,
)
def test_a_question_that_makes_no_sense_cannot_be_asked(fields, said):
    with pytest.raises(UsageError, match=said):
        Question(**{"request": BERT, **fields})


def test_a_cap_as_large_as_the_gpu_survives_the_way_through_gibibytes():
    gpu = find_gpu("h200")
    question = Question(
        request=Request(model="bert", target=Target(gpu="h200", memory_cap_bytes=gpu.torch_memory_bytes))
    )

    assert JobBody(**as_body(question)).question() == question
