"""Of many like layers a few are traced, and the trace is that of all."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.recipe import Recipe
from support.decoders import llama

HOPPER = (9, 0)
LAYERS = 10
# One more than run: tracing all of them takes most of the time of these tests.
FEW_LAYERS = 8


class Layer(nn.Module):
    """Counts its calls; ``behaves`` says whether it does what its place asks for."""

    def __init__(self, layer_idx, behaves=True):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 32), nn.Linear(32, 8)
        self.layer_idx, self.behaves, self.calls = layer_idx, behaves, []

    def forward(self, x):
        self.calls.append(self.layer_idx)
        hidden = torch.relu(self.inner(x))
        if not self.behaves and self.layer_idx == 4:
            hidden = hidden.exp()
        return x + self.outer(hidden)


class Deep(nn.Module):
    def __init__(self, behaves=True):
        super().__init__()
        self.layers = nn.ModuleList(Layer(n, behaves) for n in range(LAYERS))
        self.head = nn.Linear(8, 3)

    def forward(self, x, labels):
        for layer in self.layers:
            x = layer(x)
        return SimpleNamespace(loss=cross_entropy(self.head(x), labels))


def deep(made, **facts):
    def build():
        made.append(Deep(**facts))
        return made[-1]

    def batch(size, device):
        return {"x": torch.rand(size, 8, device=device), "labels": torch.zeros(size, dtype=torch.long, device=device)}

    return mm.Workload(build, batch, name="deep")


def operations(program):
    """What each operation of a program does, without the numbers of storages; 0-d tensors take no memory."""

    def shapes(tensors):
        return sorted((tensor.shape, str(tensor.dtype)) for tensor in tensors if tensor.shape)

    return [
        (growth.operation.name, shapes(growth.operation.inputs), shapes(growth.operation.outputs),
         [size for _, size in growth.operation.made], shapes(growth.larger.inputs), growth.operation.module)
        for growth in program.operations
    ]  # fmt: skip


def homes(step):
    """How many lasting storages of each owner each module has."""
    return Counter((step.owners[number], step.homes[number]) for number in step.owners if number in step.homes)


def trials(step, recipe):
    probe = PredictedProbe(step, recipe, find_gpu("h200"))
    for size in (1, 6):
        trial = probe.measure(size)
        yield trial.peak_allocated_bytes, trial.peak_reserved_bytes, trial.breakdown, pytest.approx(trial.step_seconds)
        yield probe.try_from_start(size).peak_reserved_bytes


RECIPES = {
    "bf16": Recipe(precision="bf16"),
    "checkpointing": Recipe(precision="bf16", lora=4, gradient_checkpointing="full"),
    "qlora": Recipe(precision="bf16", lora=4, weights="nf4"),
    "muon": Recipe(optimizer="muon"),
    "8-bit": Recipe(optimizer="adamw8bit"),
    "fused": Recipe(fused=True),
    "in backward": Recipe(optimizer_in_backward=True),
    "accumulated": Recipe(accumulation_steps=3),
    "sharded": Recipe(precision="bf16", gpus=8, strategy="fsdp", lora=4, gradient_checkpointing="full"),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_trace_of_some_layers_is_that_of_all(recipe):
    workload = llama(num_hidden_layers=FEW_LAYERS)
    some, every = (trace_training(workload, recipe, HOPPER, every_layer=every) for every in (False, True))

    assert operations(some.first) == operations(every.first)
    assert operations(some.later) == operations(every.later)
    assert list(some.weights.values()) == list(every.weights.values())
    assert homes(some) == homes(every)
    assert (some.facts, some.tensors, some.frozen_tensors) == (every.facts, every.tensors, every.frozen_tensors)
    assert list(trials(some, recipe)) == list(trials(every, recipe))


def test_only_a_few_of_many_layers_run_and_the_model_is_whole_again():
    made = []
    trace_training(deep(made), Recipe(), HOPPER)

    ran = [layer.layer_idx for layer in made[0].layers if layer.calls]
    assert len(made[0].layers) == LAYERS
    assert ran[:3] == [0, 1, 2] and ran[-1] == LAYERS - 1 and len(ran) < LAYERS


def test_layers_that_look_alike_and_are_not_all_run():
    made = []
    workload = deep(made, behaves=False)
    step = trace_training(workload, Recipe(), HOPPER)

    assert all(layer.calls for layer in made[0].layers)
    assert operations(step.later) == operations(trace_training(workload, Recipe(), HOPPER, every_layer=True).later)


def test_layers_that_take_turns_are_repeated_together():
    config = {"num_hidden_layers": 18, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 9}

    def build():
        from transformers import Gemma2Config, Gemma2ForCausalLM

        return Gemma2ForCausalLM(
            Gemma2Config(hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1,
                         head_dim=16, vocab_size=100, **config)
        )  # fmt: skip

    workload = mm.Workload(build, llama(seq_len=16, vocab_size=100).batch, name="Gemma")
    some, every = (trace_training(workload, Recipe(), HOPPER, every_layer=every) for every in (False, True))
    assert operations(some.later) == operations(every.later)
    assert list(trials(some, Recipe())) == list(trials(every, Recipe()))
