import json

import pytest

from memorymark.errors import UsageError
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.units import GIB


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"model": "llama-900b"}, "unknown model 'llama-900b'"),
        ({"model": "bert", "seq_len": 0}, "seq_len= must be 1 or more, not 0"),
        ({"model": "resnet", "image_size": -1}, "image_size= must be 1 or more, not -1"),
        ({"model": "bert", "seq_len": 513}, "bert takes 1 to 512 tokens; seq_len=513 is out of range"),
        ({"model": "resnet", "image_size": 4097}, "resnet takes 1 to 4096 pixels; image_size=4097 is out of range"),
        ({"model": "bert", "image_size": 224}, "image_size= does not apply to bert"),
        ({"model": "resnet", "seq_len": 128}, "seq_len= does not apply to resnet"),
        ({"model": "bert", "audio_seconds": 5}, "audio_seconds= does not apply to bert"),
        ({"model": "wav2vec2-base", "audio_seconds": 61}, "wav2vec2-base takes 1 to 60 seconds"),
        ({"model": "clip-base", "seq_len": 78}, "clip-base takes 1 to 77 tokens"),
        ({"model": "bert", "revision": "main"}, "revision= is for Hugging Face ids, and bert is not one"),
        ({"model": "some/model", "seq_len": 0}, "seq_len= must be 1 or more, not 0"),
        (
            {"model": "gpt2", "recipe": Recipe(channels_last=True)},
            "channels_last= is for samples in pixels, and those of gpt2 are in tokens",
        ),
    ],
)
def test_what_the_model_cannot_do_is_refused(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        Request(**options)


def test_the_longest_sequence_and_the_largest_image_are_allowed():
    assert Request(model="bert", seq_len=512).seq_len == 512
    assert Request(model="resnet", image_size=4096).image_size == 4096


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:12"])
def test_devices_are_accepted_by_kind_and_index(device):
    assert Target(device=device).device == device


@pytest.mark.parametrize("device", ["", "tpu", "cuda0", "cuda:one", "cuda:-1", "cuda:0:1", "cuda:", "cpu:0", "cpu:"])
def test_unknown_devices_are_refused(device):
    with pytest.raises(UsageError, match="use auto, cuda, cuda:N, mps or cpu"):
        Target(device=device)


@pytest.mark.parametrize("cap", [0, -GIB])
def test_a_memory_cap_must_leave_something(cap):
    with pytest.raises(UsageError, match="memory_gib= must be a number above 0"):
        Target(memory_cap_bytes=cap)


@pytest.mark.parametrize(
    "request_",
    [
        Request(model="bert"),
        Request(
            model="openai-community/gpt2",
            seq_len=64,
            small=True,
            recipe=Recipe(precision="bf16", optimizer="sgd"),
            target=Target(device="cuda:1", memory_cap_bytes=8 * GIB),
        ),
        Request(model="some/model", revision="main", trust_remote_code=True, task="causal-lm"),
        Request(config={"model_type": "bert", "id2label": {"0": "no"}}, model="mine"),
        Request(model="nets.py:make(64)"),
    ],
    ids=["default", "everything set", "Hugging Face id", "pasted config", "function"],
)
def test_a_request_survives_json(request_):
    assert Request.from_dict(json.loads(json.dumps(request_.to_dict()))) == request_
