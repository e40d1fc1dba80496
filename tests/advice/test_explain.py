"""The largest thing at the peak that an option would do without, named with what that option saves."""

import pytest

import memorymark as mm
from support.decoders import llama
from support.tiny import tiny


@pytest.fixture(scope="module")
def decoder():
    return mm.explain(llama(), 8, gpu="a10", optimizer="sgd")


def test_what_an_option_removes_is_named_with_the_peak_then(decoder):
    found = decoder.removable

    assert (found.what, found.change, found.recipe) == (
        "activations", "checkpointing", {"gradient_checkpointing": "full"}
    )  # fmt: skip
    assert found.total_bytes == decoder.trial.breakdown.activations_bytes
    assert found.share == pytest.approx(found.total_bytes / decoder.timeline.peak_bytes)
    then = mm.predict(llama(), 8, gpu="a10", optimizer="sgd", gradient_checkpointing="full")
    assert found.peak_allocated_bytes == then.peak_allocated_bytes < decoder.timeline.peak_bytes


def test_an_option_that_the_model_does_not_take_is_not_named():
    asked = {"device": "cpu", "optimizer": "sgd", "optimizer_in_backward": True}
    assert mm.explain(tiny(), 8, **asked).removable is None  # it has no checkpointing


def test_an_explanation_says_where_its_numbers_come_from(decoder):
    assert (decoder.info.source, decoder.info.gpu_id, decoder.trial.batch_size) == ("predicted", "a10", 8)
    assert decoder.trial.breakdown.total_bytes == decoder.trial.device_bytes
