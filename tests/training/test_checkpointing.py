"""What gradient checkpointing keeps, and what it computes again: run on the CPU, and as it is predicted."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import memorymark as mm
from memorymark.results.uncertainty import UNKNOWN_OPERATIONS
from memorymark.training.step import TrainingStep
from memorymark.units import GIB
from support.decoders import llama
from support.probes import predicted, probe_for

CPU = torch.device("cpu")
DECODER = llama(seq_len=64)
BLOCKS, PRODUCTS = 2, 7  # of a block: query, key, value, output, gate, up, down


def recipe(kind, **options):
    return mm.Recipe(gradient_checkpointing=kind, optimizer="sgd", **options)


class Counted(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func.name().partition(".")[0]] += 1
        return func(*args, **(kwargs or {}))


def calls_of_a_step(kind, **options):
    step = TrainingStep(DECODER, recipe(kind, **options), CPU)
    with Counted() as counted:
        step(2)
    return counted.calls


def test_selective_checkpointing_repeats_every_second_product_and_no_fused_attention():
    none, full, selective = (calls_of_a_step(kind) for kind in ("none", "full", "selective"))

    attention = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert (none[attention], full[attention], selective[attention]) == (BLOCKS, 2 * BLOCKS, BLOCKS)
    kept = BLOCKS * -(-PRODUCTS // 2)
    assert full["aten::mm"] - selective["aten::mm"] == kept - BLOCKS  # full stops before the last product of a block
    assert none["aten::mm"] < selective["aten::mm"] < full["aten::mm"]
    assert selective["aten::silu"] == full["aten::silu"] == 2 * none["aten::silu"]


def test_the_kinds_of_checkpointing_train_the_same_weights():
    trained = []
    for kind in ("none", "full", "selective"):
        torch.manual_seed(0)
        step = TrainingStep(DECODER, recipe(kind), CPU)
        torch.manual_seed(1)
        step(2)
        trained.append(torch.cat([p.detach().flatten() for p in step.model.parameters()]))

    torch.testing.assert_close(trained[0], trained[1])
    torch.testing.assert_close(trained[0], trained[2])


# Unfused attention, because the CPU's fused kernel is not the GPU's.
@pytest.mark.parametrize("options", [{}, {"lora": 4}, {"lora": 4, "precision": "bf16"}], ids=str)
def test_what_is_kept_for_the_backward_pass_is_predicted_as_it_is_measured(options):
    asked = recipe("selective", attention="eager", **options)

    real = probe_for(DECODER, asked, cap_bytes=GIB).measure(16).breakdown
    expected = predicted(DECODER, asked).measure(16).breakdown

    # Except for numbers without a dimension, such as the loss.
    assert real.activations_bytes == pytest.approx(expected.activations_bytes, abs=16)


def test_selective_checkpointing_is_between_none_and_full_in_memory_and_time():
    long = llama(seq_len=64, hidden_size=256, intermediate_size=1024)
    none, full, selective = (
        predicted(long, recipe(kind, precision="bf16")).measure(1024) for kind in ("none", "full", "selective")
    )

    assert full.peak_allocated_bytes < selective.peak_allocated_bytes < none.peak_allocated_bytes
    assert none.step_seconds < selective.step_seconds < full.step_seconds


def test_what_was_never_timed_on_a_gpu_has_a_wider_interval_of_its_time():
    usual, untimed = (predicted(DECODER, recipe(kind)) for kind in ("full", "selective"))

    assert (usual.info.untimed_options, untimed.info.untimed_options) == ((), ("gradient_checkpointing",))
    widths = []
    for probe in (usual, untimed):
        trial = probe.measure(4)
        (low, high), (shortest, longest) = trial.intervals["peak_allocated_bytes"], trial.intervals["step_seconds"]
        widths.append(((high - low) / trial.peak_allocated_bytes, longest / shortest))
    assert widths[1] == pytest.approx((widths[0][0], widths[0][1] ** UNKNOWN_OPERATIONS))
