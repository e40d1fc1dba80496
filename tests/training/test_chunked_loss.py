"""The chunked loss of a language model: its own loss and gradients, without all of its logits."""

from dataclasses import replace

import pytest
import torch

import memorymark as mm
from memorymark.models.workloads import workload_of
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.results.code import Plan, code_for
from memorymark.training.chunked_loss import chunk_count, chunked_loss

LLAMA = Request(model="llama-3.2-1b", small=True, seq_len=24)
CPU = torch.device("cpu")


def made(request, *, ignored=0):
    """A model and a batch, of which the first tokens of each text do not count."""
    torch.manual_seed(0)
    workload = workload_of(request)
    model, batch = workload.build(), workload.batch(3, CPU)
    batch["labels"][:, :ignored] = -100
    return model, batch


@pytest.mark.parametrize("ignored", [0, 7])
@pytest.mark.parametrize("model", ["llama-3.2-1b", "gpt2-lm", "phi-2"], ids=["tied", "gpt", "biased head"])
def test_loss_and_gradients_are_the_models_own(model, ignored):
    model, batch = made(replace(LLAMA, model=model), ignored=ignored)
    model.eval()

    own = model(**batch).loss
    own.backward()
    of_own = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    chunked = chunked_loss(model, batch)
    chunked.backward()

    torch.testing.assert_close(chunked, own)
    assert {name for name, weight in model.named_parameters() if weight.grad is not None} == set(of_own)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, of_own[name], atol=1e-5, rtol=1e-4, msg=name)


def test_autocast_makes_products_in_half_precision_and_gradients_in_the_weights_type():
    model, batch = made(LLAMA)

    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_loss(model, batch)
    loss.backward()

    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, model(**batch).loss, atol=0.05, rtol=0.01)
    assert model.get_output_embeddings().weight.grad.dtype == torch.float32


def test_there_are_as_many_chunks_as_the_vocabulary_is_wider_than_the_model():
    assert chunk_count(128_256, 4096) == 32
    assert chunk_count(1000, 4096) == 1


def test_the_peak_of_a_large_vocabulary_falls_by_most_of_the_logits():
    words, width = 64_000, 128
    config = {"model_type": "llama", "vocab_size": words, "hidden_size": width, "intermediate_size": 256}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    asked = {"config": config, "batch_size": 8, "gpu": "h100", "seq_len": 1024, "precision": "bf16"}
    own, chunked = (mm.predict("mine", loss=loss, **asked) for loss in ("model", "chunked"))

    logits_bytes = 8 * 1024 * words * 4  # in fp32, of which a step holds more than one copy
    assert own.peak_allocated_bytes - chunked.peak_allocated_bytes > 1.5 * logits_bytes


def test_a_step_with_it_is_measured():
    trial = mm.measure("llama-3.2-1b", 2, device="cpu", small=True, seq_len=16, loss="liger")

    assert trial.fits


@pytest.mark.parametrize(
    ("model", "options", "why"),
    [
        ("bert", {}, "is for causal language models, and bert is not trained as one"),
        ("t5-small", {}, "is for causal language models"),
        ("gemma-2-2b", {}, "cannot be used with gemma-2-2b, which rescales its logits"),
        ("gpt2-lm", {"compile": True}, "runs outside the model that"),
    ],
)
def test_where_it_does_not_apply_one_sentence_says_so(model, options, why):
    with pytest.raises(mm.UsageError, match=why) as caught:
        workload_of(Request(model=model, small=True, recipe=Recipe(loss="chunked", **options)))

    assert (caught.value.field, caught.value.given) == ("loss", "chunked")


@pytest.mark.parametrize("dialect", ["pytorch", "transformers", "lightning"])
def test_the_code_says_where_to_get_it(dialect):
    code = code_for(Plan(recipe=Recipe(loss="chunked"), batch_size=8))

    assert "AutoLigerKernelForCausalLM" in getattr(code, dialect)
