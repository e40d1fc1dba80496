"""What a rank of several GPUs holds: parts of weights, gathered ones, and buckets of gradients."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.operation import GATHERED
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from support.decoders import llama
from support.tiny import PARAMETERS, TinyNet, tiny

DATA = Path(__file__).parents[2] / "data" / "several_gpus.json"
HOPPER = (9, 0)
GPU = find_gpu("h200")


def probe_of(recipe, workload=None):
    return PredictedProbe(trace_training(workload or llama(), recipe, HOPPER), recipe, GPU)


@pytest.fixture(scope="module")
def copied():
    return probe_of(Recipe(gpus=2))


@pytest.fixture(scope="module")
def sharded():
    return probe_of(Recipe(gpus=4, strategy="fsdp", precision="bf16"))


def test_a_recorded_rank_of_fsdp_is_predicted_within_half_a_percent():
    truth = json.loads(DATA.read_text(encoding="utf-8"))
    recipe = Recipe(**truth["recipe"])
    request = Request(config=truth["config"], seq_len=truth["seq_len"], recipe=recipe, small=False)
    trial = probe_of(recipe, workload_of(request)).measure(truth["batch_size"])

    assert trial.peak_allocated_bytes == pytest.approx(truth["later_peak_allocated_bytes"], rel=0.005)


def test_ddp_keeps_buckets_as_large_as_the_gradients(copied):
    parameters, trial = copied.info.parameters, copied.measure(4)

    assert trial.breakdown.gradient_buckets_bytes == 4 * parameters
    assert trial.breakdown.gathered_parameters_bytes == 0
    assert trial.breakdown.total_bytes == trial.device_bytes


def test_fsdp_keeps_parts_and_gathers_blocks_in_16_bits(sharded):
    parameters, trial = sharded.info.parameters, sharded.measure(4)
    made = [
        size
        for growth in sharded.step.later.operations
        if growth.operation.name == GATHERED
        for _, size in growth.operation.made
    ]

    assert sum(sharded.step.weights.values()) == pytest.approx(4 * parameters / 4, rel=0.01)
    assert 2 * parameters < sum(made) <= 2 * 2 * parameters  # blocks twice, what is outside of them once
    assert trial.breakdown.gathered_parameters_bytes > 0
    assert trial.breakdown.total_bytes == trial.device_bytes


def test_gathered_parameters_are_given_back_before_the_next_step(sharded):
    alive = set()
    for growth in sharded.step.later.operations:
        alive -= set(growth.operation.freed)
        if growth.operation.name == GATHERED:
            alive |= {number for number, _ in growth.operation.made}

    assert not alive


def test_what_fsdp_sends_arrives_in_memory_of_other_streams(sharded):
    streams = {growth.operation.stream for growth in sharded.step.later.operations if growth.operation.made}

    assert len(streams) == 3  # computing, gathering and reducing


def test_sharing_the_optimizer_s_state_leaves_each_gpu_a_part_of_it():
    whole, shared = (trace_training(tiny(), Recipe(gpus=2, strategy=one), HOPPER) for one in ("ddp", "zero1"))

    assert sum(whole.optimizer_state.values()) == 8 * PARAMETERS
    assert 4 * PARAMETERS <= sum(shared.optimizer_state.values()) < 8 * PARAMETERS


def test_throughput_is_that_of_all_and_the_rest_that_of_each(copied):
    trial = copied.measure(4)

    assert (trial.gpus, trial.strategy) == (2, "ddp")
    assert trial.samples_per_second == pytest.approx(2 * 4 / trial.step_seconds)
    assert trial.per_gpu.samples_per_second == trial.samples_per_second / 2
    assert trial.per_gpu.peak_reserved_bytes == trial.peak_reserved_bytes
    assert 0 < trial.scaling_efficiency <= 1
    low, high = trial.intervals["samples_per_second"]
    assert low < trial.samples_per_second < high


def test_nccl_takes_memory_that_the_allocator_cannot_have(copied):
    least, usual, most = copied.info.nccl_bytes

    assert copied.info.capacity_bytes == GPU.usable_bytes - usual
    assert copied.measure(4).breakdown.nccl_bytes == usual
    assert least < usual < most and copied.info.nccl_source


def test_accumulated_gradients_are_reduced_once_by_ddp():
    recipe = Recipe(gpus=2, accumulation_steps=4)
    once, often = (probe_of(one, tiny()).measure(4) for one in (Recipe(gpus=2), recipe))

    assert often.communicating_seconds == once.communicating_seconds
    assert often.samples_per_second * often.step_seconds == pytest.approx(4 * 2 * 4)


def test_a_step_of_the_caller_s_own_is_refused_for_several_gpus():
    def step(model, batch, optimizer):
        model(**batch).loss.backward()

    workload = mm.Workload(tiny().build, tiny().batch, step=step, name="mine")
    with pytest.raises(UsageError, match="mine runs a step of its own, which is not predicted for several gpus= yet"):
        trace_training(workload, Recipe(gpus=2), HOPPER)


class Unfinished(TinyNet):
    """Has a layer that nothing uses, and a parameter without dimensions."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(()))


@pytest.mark.parametrize(
    ("strategy", "complaint"),
    [
        ("ddp", "some parameters of tiny get no gradient, for which DDP would wait"),
        ("fsdp", "scale is a single number"),
    ],
)
def test_a_model_that_torch_would_not_spread_is_refused_in_a_sentence(strategy, complaint):
    with pytest.raises(UsageError, match=complaint):
        trace_training(tiny(Unfinished), Recipe(gpus=2, strategy=strategy), HOPPER)


@pytest.fixture(scope="module")
def in_layers():
    return probe_of(Recipe(gpus=4, tensor_parallel=4), llama(num_key_value_heads=4))


def test_gpus_that_share_layers_keep_parts_of_them_and_wait_for_each_other(in_layers):
    alone, trial = probe_of(Recipe(), llama(num_key_value_heads=4)), in_layers.measure(4)
    cut = 2 * (4 * 64 * 64 + 3 * 64 * 128) + 200 * 64  # the layers' matrices and the head; not embeddings and norms
    operations = [growth.operation for growth in in_layers.step.later.operations]
    sent = [op for op in operations if op.name.startswith("layers.")]

    assert in_layers.info.parameters == alone.info.parameters
    assert sum(alone.step.weights.values()) - sum(in_layers.step.weights.values()) == 4 * cut * 3 / 4
    # One sum after attention and MLP each, the gathered logits; backward one sum for each layer that is cut by columns.
    assert [op.base_name for op in sent].count("all_gather_into_tensor") == 1
    assert [op.base_name for op in sent].count("all_reduce") == 2 * 2 + 2 * 5 + 1
    assert trial.communicating_seconds > 0
    assert trial.breakdown.total_bytes == trial.device_bytes


def test_embeddings_that_are_also_the_head_are_cut_by_their_rows():
    tied = llama(num_key_value_heads=4, tie_word_embeddings=True)
    alone, parted = probe_of(Recipe(), tied), probe_of(Recipe(gpus=4, tensor_parallel=4), tied)
    cut = 2 * (4 * 64 * 64 + 3 * 64 * 128) + 200 * 64

    assert parted.info.parameters == alone.info.parameters
    assert sum(alone.step.weights.values()) - sum(parted.step.weights.values()) == 4 * cut * 3 / 4


def test_gpus_that_share_layers_train_on_one_batch(in_layers):
    trial = in_layers.measure(4)

    assert (trial.gpus, trial.strategy, trial.tensor_parallel) == (4, None, 4)
    assert trial.samples_per_second == pytest.approx(4 / trial.step_seconds)


def test_layers_are_cut_among_some_gpus_and_what_is_left_among_the_others():
    recipe = Recipe(gpus=8, tensor_parallel=2, precision="bf16", gradient_checkpointing="full")
    both = probe_of(recipe, llama(num_hidden_layers=10))
    whole = trace_training(llama(num_hidden_layers=10), recipe, HOPPER, every_layer=True)
    weights, trial = sum(both.step.weights.values()), both.measure(4)

    cut = 10 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) + 200 * 64
    assert weights == pytest.approx(4 * (cut / 8 + (both.info.parameters - cut) / 4), rel=0.01)
    assert recipe.strategy == "fsdp"
    assert trial.breakdown.gathered_parameters_bytes > 0
    assert trial.samples_per_second == pytest.approx(4 * 4 / trial.step_seconds)
    assert PredictedProbe(whole, recipe, GPU).measure(4).to_dict() == trial.to_dict()


@pytest.mark.parametrize(
    ("workload", "gpus", "complaint"),
    [
        (tiny(), 2, "transformers has no plan for cutting the layers of TinyNet; cut all weights with strategy="),
        (
            llama(),
            4,
            "has 2 heads of keys and values, which 4 GPUs cannot divide; choose another tensor",
        ),
        (llama(num_attention_heads=2), 4, "has 2 heads of attention"),
        (llama(vocab_size=201), 2, "has layers whose size 2 GPUs cannot divide"),
        (llama(intermediate_size=129), 2, "has layers whose size 2 GPUs cannot divide"),
    ],
)
def test_layers_that_cannot_be_cut_are_refused_in_a_sentence(workload, gpus, complaint):
    with pytest.raises(UsageError, match=complaint) as refused:
        trace_training(workload, Recipe(gpus=gpus, tensor_parallel=gpus), HOPPER)
    assert refused.value.field == "tensor_parallel"
