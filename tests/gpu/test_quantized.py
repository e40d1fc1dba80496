"""Weights in other types on a real GPU, against their predictions. Needs bitsandbytes for the quantized ones."""

import pytest
import torch

import memorymark as mm
from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from support.decoders import llama

pytestmark = pytest.mark.gpu

# Wide enough that weights and their dequantized copies outweigh what libraries take.
DECODER = llama(
    seq_len=512,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=4,
    num_attention_heads=16,
    vocab_size=32_000,
)
ADAPTERS = {"lora": 16, "precision": "bf16"}
QUANTIZED = [
    {**ADAPTERS, "weights": "nf4"},
    {**ADAPTERS, "weights": "nf4", "gradient_checkpointing": True},
    {**ADAPTERS, "weights": "nf4", "lora_variant": "dora"},
    {**ADAPTERS, "weights": "int8"},
]
OTHERS = [
    {"precision": "bf16", "gradient_checkpointing": "selective"},
    {"weights": "bf16"},
    {"weights": "bf16", "precision": "bf16"},
    {**ADAPTERS, "lora_variant": "dora"},
    {**ADAPTERS, "lora_targets": "attention"},
]


def both(options, batch_size):
    """The trial as it runs and as it is predicted for this GPU."""
    gpu = match_gpu(torch.cuda.get_device_name())
    if gpu is None:
        pytest.skip("this GPU is not in the catalog")
    recipe = mm.Recipe(**options)
    with MeasuredProbe(DECODER, recipe, open_device(mm.Target(device="cuda"))) as probe:
        measured = probe.measure(batch_size)
    predicted = PredictedProbe(trace_training(DECODER, recipe, gpu.capability), recipe, gpu).measure(batch_size)
    return measured, predicted


@pytest.mark.parametrize("options", OTHERS, ids=str)
def test_weights_and_adapters_take_what_is_predicted(options):
    measured, predicted = both(options, 4)

    assert predicted.breakdown.weights_bytes == measured.breakdown.weights_bytes
    assert predicted.peak_allocated_bytes == pytest.approx(measured.peak_allocated_bytes, rel=0.01)


@pytest.mark.parametrize("options", QUANTIZED, ids=str)
def test_quantized_weights_take_what_is_predicted(options):
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")

    measured, predicted = both(options, 4)

    assert predicted.breakdown.weights_bytes == measured.breakdown.weights_bytes
    assert predicted.peak_allocated_bytes == pytest.approx(measured.peak_allocated_bytes, rel=0.02)
    low, high = predicted.intervals["step_seconds"]
    assert low <= measured.step_seconds <= high
