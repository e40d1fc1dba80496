"""GRPO's training step: TRL's formulas, on completions, and the cache of generating them."""

from dataclasses import replace

import pytest
import torch

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.request import Request
from memorymark.training.facts import facts_of
from memorymark.training.generation import Generation, cache_of
from memorymark.training.step import TrainingStep
from memorymark.units import GIB
from support.probes import predicted, probe_for

CPU = torch.device("cpu")
RECIPE = mm.Recipe(optimizer="sgd", attention="eager")
GRPO = Request(model="llama-3.2-1b", task="grpo", small=True, seq_len=24, completion_tokens=10, completions=4)


def step_of(request=GRPO):
    torch.manual_seed(0)
    return TrainingStep(workload_of(request), RECIPE, CPU)


def scores_of(model, batch):
    """The log-probability of each token of the completions."""
    scores = model(input_ids=batch["input_ids"]).logits[:, -11:-1].log_softmax(-1)
    return scores.gather(-1, batch["input_ids"][:, -10:, None])[..., 0]


@pytest.mark.parametrize("reference", ["none", "kept"])
def test_a_completion_counts_by_its_advantage_and_its_distance_to_the_reference(reference):
    step = step_of(replace(GRPO, reference=reference))
    batch = step.workload.batch(3, CPU)
    with torch.no_grad():
        for weight in step.model.parameters():
            weight.add_(0.01 * torch.randn_like(weight))

    own = scores_of(step.model, batch)
    expected = -(own - own.detach()).exp() * batch["advantages"][:, None]
    if reference == "kept":
        apart = scores_of(step.reference.copy, batch) - own
        expected = expected + 0.04 * (apart.exp() - apart - 1)
    given = () if step.reference is None else (step.reference,)
    loss = step.workload.loss(step.model, batch, *given)

    torch.testing.assert_close(loss, expected.mean())
    weights = list(step.model.parameters())
    pairs = zip(torch.autograd.grad(loss, weights), torch.autograd.grad(expected.mean(), weights), strict=True)
    for mine, plain in pairs:
        torch.testing.assert_close(mine, plain, atol=1e-6, rtol=1e-4)


def test_a_policy_is_compared_with_a_reference_only_on_request():
    assert step_of().reference is None
    assert facts_of(step_of(replace(GRPO, reference="kept"))).reference_bytes > 0


@pytest.mark.parametrize(
    "recipe",
    [RECIPE, mm.Recipe(lora=4, attention="eager", gradient_checkpointing="full")],
    ids=["full", "adapters, checkpointing"],
)
@pytest.mark.parametrize("reference", ["none", "kept"])
def test_what_a_step_keeps_is_predicted_as_it_is_measured(reference, recipe):
    workload = workload_of(replace(GRPO, reference=reference))

    real = probe_for(workload, recipe, cap_bytes=4 * GIB).measure(8)
    expected = predicted(workload, recipe).measure(8)

    assert real.breakdown.activations_bytes == pytest.approx(expected.breakdown.activations_bytes, abs=64)
    assert (real.kv_cache_bytes, real.generation_peak_bytes > 0) == (expected.kv_cache_bytes, True)


def test_prompts_get_all_of_their_completions():
    generation = Generation(4, (100, 60))
    assert generation.held(1) == generation.held(4) == [400, 240, 400]
    assert generation.held(5) == [800, 480, 800]


@pytest.mark.parametrize("model", ["llama-3.2-1b", "qwen2.5-0.5b"])
def test_the_cache_holds_keys_and_values_of_every_head_that_has_them(model):
    workload = workload_of(replace(GRPO, model=model, seq_len=40))
    built = workload.build()
    config = built.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    assert sum(cache_of(built, 40, CPU)) == config.num_hidden_layers * 2 * config.num_key_value_heads * width * 4 * 40
    assert built.training


def test_layers_that_attend_to_a_window_cache_only_that():
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        vocab_size=64,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
    )
    sizes = cache_of(Gemma3ForCausalLM(config), 40, CPU)
    assert sorted(sizes) == [7 * 16 * 4] * 2 + [40 * 16 * 4] * 2


def test_generation_takes_part_in_whether_a_batch_fits():
    workload = replace(workload_of(GRPO), completions=4096)
    probe = predicted(workload, RECIPE)
    trial = probe.measure(1)

    assert trial.kv_cache_bytes == 4096 * probe.info.kv_cache_bytes
    assert trial.peak_allocated_bytes == trial.generation_peak_bytes > trial.kv_cache_bytes
    assert trial.breakdown.kv_cache_bytes == trial.kv_cache_bytes + trial.kv_cache_bytes // 4
    small = PredictedProbe(probe.step, RECIPE, find_gpu("a10"), memory_cap_bytes=trial.kv_cache_bytes)
    assert not small.try_batch(1).fits


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"completion_tokens": 24}, "completion_tokens"),
        ({"completions": 1}, "completions"),
        ({"task": "sft"}, "completions"),
        ({"task": "dpo", "completions": None}, "completion_tokens"),
        ({"reference": "precomputed"}, "reference"),
        ({"packed": True}, "packed"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(options, field):
    with pytest.raises(UsageError) as caught:
        workload_of(replace(GRPO, **options))
    assert caught.value.field == field


def test_half_of_a_text_is_the_completion_unless_told():
    workload = workload_of(replace(GRPO, completion_tokens=None, completions=None))
    assert (workload.completions, workload.completion_tokens) == (8, 12)
    assert workload.sample == "a completion of 12 tokens after a prompt of 12"


def test_latent_attention_caches_what_transformers_keeps_of_it():
    from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

    config = DeepseekV2Config(
        num_hidden_layers=1,
        hidden_size=32,
        intermediate_size=32,
        num_attention_heads=2,
        num_key_value_heads=2,
        kv_lora_rank=8,
        q_lora_rank=None,
        qk_nope_head_dim=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        vocab_size=64,
        first_k_dense_replace=1,
    )
    latent, positions = 8 * 4 * 40, 8 * 4 * 40  # which the keys and values of all heads are made of
    assert cache_of(DeepseekV2ForCausalLM(config), 40, CPU) == (latent, positions)
