"""Weights trained in 16 bits: gradients and optimizer state are in that type too."""

import pytest
import torch

import memorymark as mm
from memorymark.models.workloads import workload_of
from memorymark.training.building import build_model
from memorymark.training.step import TrainingStep
from support.decoders import llama
from support.probes import predicted, probe_for
from support.tiny import PARAMETERS, tiny

CPU = torch.device("cpu")
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("weights", ["bf16", "fp16"])
def test_weights_gradients_and_state_are_all_in_16_bits(weights):
    step = TrainingStep(tiny(), mm.Recipe(weights=weights), CPU)
    gradients = []

    step(8, lambda phase: gradients.extend(step.gradients()) if phase == "backward" else None)

    moments = [tensor for tensor in step.optimizer_state() if tensor.dim() > 0]
    assert {tensor.dtype for tensor in (*step.model.parameters(), *gradients, *moments)} == {HALF[weights]}


@pytest.mark.parametrize("probe_of", [probe_for, predicted], ids=["measured", "predicted"])
def test_half_weights_halve_what_lasts(probe_of):
    probe = probe_of(tiny(), mm.Recipe(weights="bf16", optimizer="sgd"))

    parts = probe.measure(1).breakdown

    assert probe.info.weights_dtype == "bf16"
    assert parts.weights_bytes == 2 * PARAMETERS + 2  # and a buffer
    assert parts.optimizer_state_bytes == 2 * PARAMETERS


def test_autocast_over_half_weights_casts_none_of_them():
    """It still computes norms and the loss in fp32, so activations grow."""
    pure, autocast = (predicted(llama(), mm.Recipe(weights="bf16", precision=p)).measure(64) for p in ("fp32", "bf16"))
    mixed = predicted(llama(), mm.Recipe(precision="bf16")).measure(64)

    assert pure.breakdown.weights_bytes == autocast.breakdown.weights_bytes < mixed.breakdown.weights_bytes
    assert pure.peak_allocated_bytes <= autocast.peak_allocated_bytes < mixed.peak_allocated_bytes


def test_images_are_cast_to_the_weights_where_no_autocast_does_it():
    step = TrainingStep(workload_of(mm.Request(model="vit-base", small=True)), mm.Recipe(weights="bf16"), CPU)

    step(1)

    assert {parameter.dtype for parameter in step.model.parameters()} == {torch.bfloat16}


def test_the_frozen_weights_of_adapters_may_stay_in_fp32():
    model = build_model(llama(), mm.Recipe(lora=4, precision="bf16", weights="fp32"))

    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_module_in_use_keeps_its_types():
    with pytest.raises(mm.UsageError, match="cast them yourself and drop weights="):
        probe_for(tiny(), mm.Recipe(weights="bf16"), preserve=True)
