"""Packed rows and FlashAttention on a real GPU, against their predictions.

Without flash-attn, the stand-ins of predictions run: torch has the same kernels.
"""

from functools import partial
from importlib.util import find_spec

import pytest
import torch

import memorymark as mm
from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.flash_attention import flash_attention
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.training import step

pytestmark = pytest.mark.gpu

DECODER = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "vocab_size": 32_000,
           "intermediate_size": 5632, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4,
           "max_position_embeddings": 16_384}  # fmt: skip
FLASH = {"attention": "flash", "precision": "bf16"}
CASES = [
    ({}, FLASH),
    ({"packed": True, "mean_tokens": 500}, FLASH),
    ({"packed": True, "mean_tokens": 500}, {**FLASH, "gradient_checkpointing": "selective"}),
    ({"packed": True, "seq_len": 8192}, {"attention": "flash", "weights": "bf16"}),
    ({"packed": True, "mean_tokens": 500}, {"precision": "bf16"}),
    ({"packed": True, "mean_tokens": 2048}, {"precision": "bf16"}),
    ({"packed": True}, {"precision": "bf16", "attention": "eager"}),
]


def both(sample, options, batch_size):
    """The trial as it runs and as it is predicted for this GPU."""
    gpu = match_gpu(torch.cuda.get_device_name())
    if gpu is None:
        pytest.skip("this GPU is not in the catalog")
    recipe = mm.Recipe(**options)
    workload = workload_of(mm.Request(config=DECODER, recipe=recipe, **{"seq_len": 2048, **sample}))
    with MeasuredProbe(workload, recipe, open_device(mm.Target(device="cuda"))) as probe:
        measured = probe.measure(batch_size)
    return measured, PredictedProbe(trace_training(workload, recipe, gpu.capability), recipe, gpu).measure(batch_size)


@pytest.fixture
def kernels(monkeypatch):
    """Lets models run FlashAttention even if the package is not installed."""
    if find_spec("flash_attn") is not None:
        yield
        return
    import transformers.modeling_flash_attention_utils  # noqa: F401 - the context changes it if it is imported

    monkeypatch.setattr(step, "prepare_model", partial(step.prepare_model, to_trace=True))
    with flash_attention(torch.cuda.get_device_capability()):
        yield


@pytest.mark.parametrize(("sample", "options"), CASES, ids=str)
def test_rows_take_what_is_predicted(sample, options, kernels):
    measured, predicted = both(sample, options, 3)

    assert predicted.peak_allocated_bytes == pytest.approx(measured.peak_allocated_bytes, rel=0.01)
    assert predicted.peak_reserved_bytes == pytest.approx(measured.peak_reserved_bytes, rel=0.10)
