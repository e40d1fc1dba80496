"""What a trace assumes of several GPUs is what real ranks do: two processes on the CPU, with gloo."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import memorymark as mm
from memorymark.devices.storages import local_part
from memorymark.errors import UsageError
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.operation import SENT, SENT_IN_LAYERS
from memorymark.question.recipe import Recipe
from memorymark.results.code import Plan, code_for
from memorymark.training.sharding import alone_of_many, spread_over
from memorymark.training.step import TrainingStep
from support import two_ranks

AMPERE = (8, 0)
SCRIPT = Path(two_ranks.__file__)
ALL_REDUCE = "c10d.allreduce_.default"


def free_ports(number):
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in found]


RECIPES = {
    "fsdp": Recipe(gpus=2, strategy="fsdp"),
    "zero1": Recipe(gpus=2, strategy="zero1"),
    "tensor_parallel": Recipe(gpus=2, tensor_parallel=2),
}


@pytest.fixture(scope="module")
def real_ranks(tmp_path_factory):
    """Runs the code to paste for each recipe in two processes; what each of the two reports, by the recipe's name."""
    folder, work = tmp_path_factory.mktemp("code"), []
    for port, (name, recipe) in zip(free_ports(len(RECIPES)), RECIPES.items(), strict=True):
        work += [port, str(folder / f"{name}.py")]
        (folder / f"{name}.py").write_text(code_for(Plan(recipe=recipe, batch_size=4, device="cpu")).pytorch)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *work],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    reports = [map(json.loads, rank.communicate(timeout=200)[0].splitlines()) for rank in ranks]
    return dict(zip(RECIPES, zip(*reports, strict=True), strict=True))


def traced(name, recipe):
    build, batch = two_ranks.MODELS.get(name.partition("_")[0], (two_ranks.WithLoss, two_ranks.make_batch))
    step = trace_training(mm.Workload(build, batch, name="net"), recipe, AMPERE)
    operations = [growth.operation for growth in step.later.operations if growth.operation.name.startswith(SENT)]
    sent = Counter(op.name.replace(SENT_IN_LAYERS, "_c10d_functional.") for op in operations)
    buckets = [number for number, owner in step.owners.items() if owner == "gradient_buckets"]
    sent[ALL_REDUCE] += len(buckets)
    weights = sum(size for number, size in step.weights.items() if number not in buckets)
    return sent, weights, sum(step.optimizer_state.values())


@pytest.mark.parametrize("name", RECIPES)
def test_two_real_ranks_keep_and_send_what_the_trace_assumes(name, real_ranks):
    first, second = sorted(real_ranks[name], key=lambda report: report["rank"])
    sent, weights_bytes, state_bytes = traced(name, RECIPES[name])

    assert first["sent"] == second["sent"]
    assert Counter(first["sent"]) == +sent
    assert sum(4 * _size(shape) for shape in first["parts"]) == weights_bytes
    assert 2 * 4 * first["state"] == state_bytes


def _size(shape):
    size = 1
    for dimension in shape:
        size *= dimension
    return size


@pytest.mark.parametrize("strategy", ["ddp", "zero2"])
def test_one_real_rank_of_a_group_that_sends_nothing_trains(strategy):
    recipe, device = Recipe(gpus=8, strategy=strategy, accumulation_steps=2), torch.device("cpu")
    workload = mm.Workload(two_ranks.WithLoss, two_ranks.make_batch, name="net")
    with alone_of_many(recipe):
        model = two_ranks.WithLoss()
        before = model.words.weight.numel()
        wrapper, buckets = spread_over(model, recipe, device)
        step = TrainingStep(workload, recipe, device, model=model, wrapper=wrapper)
        for _ in range(2):
            step(2)
        kept = local_part(model.words.weight).numel()
        state = sum(one.numel() for one in step.optimizer_state() if one.dim())

    parts = 8 if recipe.shards_weights else 1
    assert kept == before // parts
    assert state == pytest.approx(2 * sum(p.numel() for p in model.parameters()) / parts, rel=0.01)
    assert bool(buckets) == (strategy == "ddp")


@pytest.mark.parametrize(("gpus", "parts"), [(2, 2), (8, 8)])
def test_one_real_rank_of_gpus_that_share_layers_trains(gpus, parts):
    recipe, device = Recipe(gpus=gpus, tensor_parallel=2), torch.device("cpu")
    workload = mm.Workload(two_ranks.small_llama, two_ranks.make_texts, name="net")
    with alone_of_many(recipe):
        model = two_ranks.small_llama()
        wrapper, buckets = spread_over(model, recipe, device)
        step = TrainingStep(workload, recipe, device, model=model, wrapper=wrapper)
        for _ in range(2):
            step(2)
        queries, norm = model.model.layers[0].self_attn.q_proj.weight, model.model.norm.weight
        state = sum(one.numel() for one in step.optimizer_state() if one.dim())

    assert wrapper is None and not buckets
    assert local_part(queries).numel() == queries.numel() // parts
    assert local_part(norm).numel() == norm.numel() // (gpus // 2)  # which every GPU has that shares the layer
    assert state == 2 * sum(local_part(one).numel() for one in model.parameters())


def test_a_process_of_a_group_is_left_alone():
    with (
        alone_of_many(Recipe(gpus=2)),
        pytest.raises(UsageError, match="already part of a"),
        alone_of_many(Recipe(gpus=2)),
    ):
        pass
