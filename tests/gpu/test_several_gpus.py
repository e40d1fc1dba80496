"""One of several ranks on a real GPU, in a group that sends nothing, against its prediction."""

import pytest

from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target
from support.decoders import llama

pytestmark = pytest.mark.gpu

RECIPES = {
    "ddp": Recipe(gpus=2),
    "zero1": Recipe(gpus=4, strategy="zero1"),
    "zero2": Recipe(gpus=8, strategy="zero2", precision="bf16"),
    "fsdp": Recipe(gpus=8, strategy="fsdp", precision="bf16"),
    "checkpointing": Recipe(gpus=64, strategy="fsdp", precision="bf16", gradient_checkpointing="full"),
    "hsdp": Recipe(gpus=16, nodes=2, strategy="hsdp", precision="bf16"),
    "adapters": Recipe(gpus=8, strategy="fsdp", precision="bf16", lora=8),
    "layers": Recipe(gpus=2, tensor_parallel=2, precision="bf16"),
    "layers and fsdp": Recipe(gpus=8, tensor_parallel=2, precision="bf16", gradient_checkpointing="full"),
    "accumulated": Recipe(gpus=8, strategy="fsdp", precision="bf16", accumulation_steps=3),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_rank_takes_the_memory_that_is_predicted(recipe):
    device = open_device(Target(device="cuda"))
    gpu = match_gpu(device.name)
    assert gpu is not None
    workload = llama(seq_len=512, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, vocab_size=32000)
    with MeasuredProbe(workload, recipe, device) as probe:
        measured = probe.measure(8)
    predicted = PredictedProbe(trace_training(workload, recipe, gpu.capability), recipe, gpu).measure(8)

    assert measured.gpus == recipe.gpus
    assert measured.scaling_efficiency is None  # nothing was sent
    assert predicted.peak_allocated_bytes == pytest.approx(measured.peak_allocated_bytes, rel=0.04)
