"""What a trace assumes of several GPUs is what real ranks do: two processes on the CPU, with gloo."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

import memorymark as mm
from memorymark.devices.storages import local_part
from memorymark.errors import UsageError
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.question.recipe import Recipe
from memorymark.results.code import Plan, code_for
from memorymark.training.sharding import alone_of_many, spread_over
from memorymark.training.step import TrainingStep
from support import two_ranks

AMPERE = (8, 0)
SCRIPT = Path(two_ranks.__file__)
ALL_REDUCE = "c10d.allreduce_.default"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


STRATEGIES = ("fsdp", "zero1")


@pytest.fixture(scope="module")
def real_ranks(tmp_path_factory):
    """Runs the code to paste for each strategy in two processes; what each of the two reports, by strategy."""
    folder, port = tmp_path_factory.mktemp("code"), str(free_port())
    for strategy in STRATEGIES:
        plan = Plan(recipe=Recipe(gpus=2, strategy=strategy), batch_size=4, device="cpu")
        (folder / f"{strategy}.py").write_text(code_for(plan).pytorch)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), port, *(str(folder / f"{strategy}.py") for strategy in STRATEGIES)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    reports = [map(json.loads, rank.communicate(timeout=200)[0].splitlines()) for rank in ranks]
    return dict(zip(STRATEGIES, zip(*reports, strict=True), strict=True))


def traced(recipe):
    workload = mm.Workload(two_ranks.WithLoss, two_ranks.make_batch, name="net")
    step = trace_training(workload, recipe, AMPERE)
    operations = [growth.operation for growth in step.later.operations]
    sent = Counter(op.name for op in operations if op.name.startswith("c10d."))
    buckets = [number for number, owner in step.owners.items() if owner == "gradient_buckets"]
    sent[ALL_REDUCE] += len(buckets)
    weights = sum(size for number, size in step.weights.items() if number not in buckets)
    return sent, weights, sum(step.optimizer_state.values())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_real_ranks_keep_and_send_what_the_trace_assumes(strategy, real_ranks):
    first, second = sorted(real_ranks[strategy], key=lambda report: report["rank"])
    sent, weights_bytes, state_bytes = traced(Recipe(gpus=2, strategy=strategy))

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


def test_a_process_of_a_group_is_left_alone():
    with (
        alone_of_many(Recipe(gpus=2)),
        pytest.raises(UsageError, match="already part of a"),
        alone_of_many(Recipe(gpus=2)),
    ):
        pass
