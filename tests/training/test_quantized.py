"""Quantized frozen weights: stand-ins for bitsandbytes hold what it holds, and what is left is as peft prepares it."""

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.models.workloads import workload_of
from memorymark.question.quantization import Quantization
from memorymark.training.building import build_model
from memorymark.training.quantizing import quantize, scales_of
from memorymark.training.step import TrainingStep
from support.decoders import llama
from support.probes import predicted

CPU = torch.device("cpu")
INPUTS, OUTPUTS = 1024, 640
# What bitsandbytes 0.50.2 holds for a linear layer of this size, on the CPU and on CUDA: shape, type.
FACTS = {
    Quantization("nf4"): [
        ((16,), torch.float32),
        ((40,), torch.float32),
        ((256,), torch.float32),
        ((640,), torch.bfloat16),
        ((10240,), torch.uint8),
        ((327680, 1), torch.uint8),
        ((), torch.float32),
    ],
    Quantization("nf4", double=False): [
        ((16,), torch.float32),
        ((640,), torch.bfloat16),
        ((10240,), torch.float32),
        ((327680, 1), torch.uint8),
    ],
    Quantization("int8"): [
        ((640,), torch.bfloat16),
        ((640,), torch.float32),
        ((640, 1024), torch.int8),
    ],
}


def layer(quantization, device):
    """A linear layer as it is quantized; the one after it, as the last, is not."""
    model = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.Linear(OUTPUTS, 2)).to(torch.bfloat16)
    quantize(model, quantization, torch.bfloat16, device)
    assert {p.dtype for p in model[1].parameters()} == {torch.float32}
    return model[0]


def held(quantized):
    """Each tensor once; the bias is cast to fp32 with all that is not quantized, so its own type is not looked at."""
    tensors = {t.data_ptr(): t for t in (quantized.weight, *quantized.buffers(), *scales_of(quantized))}
    facts = [(tuple(t.shape), t.dtype) for t in tensors.values()]
    return sorted([*facts, (tuple(quantized.bias.shape), torch.bfloat16)], key=str)


@pytest.mark.parametrize("quantization", FACTS, ids=str)
def test_a_stand_in_holds_the_tensors_of_bitsandbytes(quantization):
    assert held(layer(quantization, None)) == sorted(FACTS[quantization], key=str)


@pytest.mark.parametrize("quantization", FACTS, ids=str)
def test_bitsandbytes_holds_what_was_recorded(quantization):
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")

    assert held(layer(quantization, CPU)) == sorted(FACTS[quantization], key=str)


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        ("llama-3.2-1b", {"lm_head"}),  # which shares its weights with the embeddings
        ("bert", {"classifier"}),
        ("gpt2", {"score"}),
    ],
)
def test_the_head_is_not_quantized(model, kept):
    workload = workload_of(mm.Request(model=model, small=True))

    built = build_model(workload, mm.Recipe(lora=4, weights="nf4", precision="bf16"), to_trace=True)

    plain = {name for name, part in built.named_modules() if type(part) is nn.Linear and "lora_" not in name}
    assert plain == kept


def test_what_is_not_quantized_is_in_fp32_and_only_adapters_are_trained():
    model = build_model(llama(), mm.Recipe(lora=4, weights="nf4", precision="bf16"), to_trace=True)

    types = {name: p.dtype for name, p in model.named_parameters()}
    assert types["model.embed_tokens.weight"] == types["model.norm.weight"] == types["lm_head.weight"] == torch.float32
    assert types["model.layers.0.mlp.up_proj.base_layer.weight"] == torch.uint8
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert all("lora_" in name for name, p in model.named_parameters() if p.requires_grad)


def test_layers_that_a_config_skips_are_not_quantized():
    workload = mm.Workload(
        llama().build, llama().batch, quantization=Quantization("nf4", skipped=("down_proj", "layers.0.mlp"))
    )

    model = build_model(workload, mm.Recipe(lora=4, precision="bf16"), to_trace=True)

    plain = {name for name, p in model.named_parameters() if p.dtype == torch.float32 and "base_layer" in name}
    parts = {name.removeprefix("model.layers.").removesuffix(".base_layer.weight") for name in plain}
    assert parts == {"0.mlp.gate_proj", "0.mlp.up_proj", "0.mlp.down_proj", "1.mlp.down_proj"}


@pytest.mark.parametrize("weights", ["int8", "nf4"])
@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "checkpointing"])
def test_a_quantized_base_is_predicted_and_counts_all_its_weights(weights, checkpointing):
    recipe = mm.Recipe(lora=4, weights=weights, precision="bf16", gradient_checkpointing=checkpointing)

    probe = predicted(llama(), recipe)

    assert probe.info.weights_dtype == weights
    assert probe.info.parameters == predicted(llama(), mm.Recipe(lora=4, precision="bf16")).info.parameters
    assert probe.measure(2).fits
    assert not probe.info.timed


def test_four_bits_take_less_than_eight_and_these_less_than_sixteen():
    wide = llama(hidden_size=512, intermediate_size=1024)
    recipes = [mm.Recipe(lora=4, weights=w, precision="bf16") for w in ("nf4", "int8", "auto")]

    taken = [predicted(wide, recipe).measure(1).breakdown.weights_bytes for recipe in recipes]

    assert taken == sorted(taken)
    assert taken[0] < 0.5 * taken[2]


def test_backward_dequantizes_the_largest_layer():
    """Its peak holds a copy of the widest layer in bf16, which a 16-bit base does not need."""
    wide = llama(seq_len=1, hidden_size=512, intermediate_size=8192, num_hidden_layers=1)
    copy_bytes = 2 * 512 * 8192

    nf4, half = (
        predicted(wide, mm.Recipe(lora=1, weights=w, precision="bf16", optimizer="none")).measure(1)
        for w in ("nf4", "auto")
    )

    more = (nf4.peak_allocated_bytes - nf4.resting_bytes) - (half.peak_allocated_bytes - half.resting_bytes)
    assert copy_bytes <= more < 1.5 * copy_bytes


def test_without_bitsandbytes_a_run_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)

    with pytest.raises(mm.UsageError, match=r"nf4 weights need bitsandbytes; run `pip install bitsandbytes`\."):
        TrainingStep(llama(), mm.Recipe(lora=4, weights="nf4"), CPU)
