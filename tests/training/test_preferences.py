"""Losses of preferences: TRL's formulas, on batches of pairs."""

from dataclasses import replace

import pytest
import torch

import memorymark as mm
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.question.request import Request
from memorymark.training.facts import facts_of
from memorymark.training.preferences import reward_loss
from memorymark.training.step import TrainingStep

CPU = torch.device("cpu")
LLAMA = Request(model="llama-3.2-1b", task="reward", small=True, seq_len=24)


def test_a_reward_model_prefers_the_first_half_of_the_batch():
    torch.manual_seed(0)
    workload = workload_of(LLAMA)
    model, batch = workload.build().eval(), workload.batch(3, CPU)

    rewards = model(**batch).logits[:, 0]

    assert batch["input_ids"].shape == (6, 24)
    torch.testing.assert_close(reward_loss(model, batch), (1 + (rewards[3:] - rewards[:3]).exp()).log().mean())


def test_a_batch_of_pairs_counts_the_tokens_of_both_texts():
    step = TrainingStep(workload_of(LLAMA), mm.Recipe(), CPU)
    step(2)

    facts = facts_of(step)
    assert (facts.sample, facts.sample_sizes, facts.sequences) == ("a pair of 24 tokens each", {"tokens": 24}, 2)


@pytest.mark.parametrize("model", ["gpt2-lm", "bert", "qwen2.5-0.5b"])
def test_decoders_without_padding_and_encoders_become_reward_models(model):
    step = TrainingStep(workload_of(replace(LLAMA, model=model)), mm.Recipe(), CPU)
    step(2)
    assert step.model.config.num_labels == 1


@pytest.mark.parametrize("loss", ["mean", "chunked"])
def test_a_reward_model_has_no_other_loss(loss):
    with pytest.raises(UsageError) as caught:
        workload_of(replace(LLAMA, recipe=mm.Recipe(loss=loss)))
    assert caught.value.field == "loss"
