"""Losses of preferences: TRL's formulas, on batches of pairs."""

from dataclasses import replace

import pytest
import torch

import memorymark as mm
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.question.request import Request
from memorymark.training.facts import facts_of
from memorymark.training.preferences import dpo_loss, reward_loss
from memorymark.training.step import TrainingStep
from memorymark.units import GIB
from support.probes import predicted, probe_for

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


DPO = replace(LLAMA, task="dpo")


def test_dpo_compares_answers_with_a_frozen_copy():
    torch.manual_seed(0)
    step = TrainingStep(workload_of(DPO), mm.Recipe(optimizer="sgd"), CPU)
    batch = step.workload.batch(3, CPU)
    with torch.no_grad():
        for weight in step.model.parameters():
            weight.add_(0.01 * torch.randn_like(weight))

    def answers(model):
        scores = model(**batch).logits[:, :-1].log_softmax(-1)
        return scores.gather(-1, batch["input_ids"][:, 1:, None])[:, 11:, 0].sum(1)

    ratios = answers(step.model) - answers(step.reference.copy)
    expected = (1 + (-0.1 * (ratios[:3] - ratios[3:])).exp()).log().mean()
    loss = dpo_loss(step.model, batch, step.reference)

    torch.testing.assert_close(loss, expected)
    weights = list(step.model.parameters())
    for mine, plain in zip(torch.autograd.grad(loss, weights), torch.autograd.grad(expected, weights), strict=True):
        torch.testing.assert_close(mine, plain, atol=1e-6, rtol=1e-4)


def test_a_step_trains_the_model_and_not_the_reference():
    step = TrainingStep(workload_of(DPO), mm.Recipe(optimizer="sgd"), CPU)
    step(2)

    changed = [not torch.equal(a, b) for a, b in zip(*(model.parameters() for model in step.models()), strict=True)]
    assert any(changed)
    assert facts_of(step).reference_bytes == sum(weight.nbytes for weight in step.model.parameters())


def test_under_adapters_the_reference_is_the_base_and_takes_no_weights():
    step = TrainingStep(workload_of(DPO), mm.Recipe(lora=4), CPU)
    batch = step.workload.batch(1, CPU)
    before = step.reference(**batch).logits
    step(2)
    step(2)

    torch.testing.assert_close(step.reference(**batch).logits, before)
    assert not torch.equal(step.model(**batch).logits, before)
    assert facts_of(step).reference_bytes == 0


@pytest.mark.parametrize("options", [{}, {"reference": "precomputed"}], ids=str)
@pytest.mark.parametrize("task", ["sft", "reward", "dpo"])
def test_what_is_kept_for_the_backward_pass_is_predicted_as_it_is_measured(task, options):
    if options and task != "dpo":
        pytest.skip("has no reference")
    workload, asked = workload_of(replace(LLAMA, task=task, **options)), mm.Recipe(optimizer="sgd", attention="eager")

    real = probe_for(workload, asked, cap_bytes=4 * GIB).measure(8)
    expected = predicted(workload, asked).measure(8)

    assert real.breakdown.activations_bytes == pytest.approx(expected.breakdown.activations_bytes, abs=16)
    assert real.breakdown.weights_bytes == pytest.approx(expected.breakdown.weights_bytes, rel=1e-3)


def test_the_steps_of_trainers_were_measured_but_not_timed():
    info = predicted(workload_of(DPO), mm.Recipe()).info
    assert info.untimed_options == ("task",)
    assert (info.certain, info.timed) == (True, False)


def test_a_reference_needs_a_task_that_compares():
    with pytest.raises(UsageError) as caught:
        replace(LLAMA, reference="precomputed")
    assert caught.value.field == "reference"


def test_images_have_no_answers_to_prefer():
    with pytest.raises(UsageError, match="has no head for dpo"):
        workload_of(Request(model="resnet", task="dpo", small=True))
