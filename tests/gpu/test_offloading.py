"""What is offloaded from a real GPU: the same training, and the memory that is predicted."""

import pytest
import torch

import memorymark as mm
from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.training.step import TrainingStep
from support.decoders import llama

pytestmark = pytest.mark.gpu

DECODER = llama(
    seq_len=512,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=4,
    num_attention_heads=16,
    vocab_size=32_000,
)
RECIPES = [
    {"offload": "activations", "precision": "bf16"},
    {"offload": "activations", "precision": "bf16", "gradient_checkpointing": "full"},
    {"offload": "optimizer"},
    {"offload": "optimizer", "weights": "bf16"},
]


def trained_weights(options):
    torch.manual_seed(0)
    step = TrainingStep(llama(seq_len=512, hidden_size=512), mm.Recipe(**options), torch.device("cuda", 0))
    torch.manual_seed(1)
    for _ in range(4):
        step(8)
    return torch.cat([weight.detach().flatten() for weight in step.model.parameters()])


@pytest.mark.parametrize("options", RECIPES, ids=str)
def test_the_same_weights_are_trained_although_copies_run_beside_the_computation(options):
    usual, offloaded = (trained_weights({**options, "offload": what}) for what in ("none", options["offload"]))

    torch.testing.assert_close(offloaded, usual, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("options", RECIPES, ids=str)
def test_device_and_host_hold_what_is_predicted(options):
    gpu = match_gpu(torch.cuda.get_device_name())
    if gpu is None:
        pytest.skip("this GPU is not in the catalog")
    recipe = mm.Recipe(**options)
    with MeasuredProbe(DECODER, recipe, open_device(mm.Target(device="cuda"))) as probe:
        measured = probe.measure(8)
    predicted = PredictedProbe(trace_training(DECODER, recipe, gpu.capability), recipe, gpu).measure(8)

    assert predicted.peak_allocated_bytes == pytest.approx(measured.peak_allocated_bytes, rel=0.02)
    assert predicted.peak_host_bytes == pytest.approx(measured.peak_host_bytes, rel=0.02)
