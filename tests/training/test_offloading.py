"""What is kept on the host: the same training, less on the device, and how much the host needs."""

import pytest
import torch

import memorymark as mm
from memorymark.devices.host_memory import HostMeter, pinned_bytes
from memorymark.training.host_links import StandInLink
from memorymark.training.offloading import OffloadedActivations
from memorymark.training.step import TrainingStep
from memorymark.units import GIB, MIB
from support.decoders import llama
from support.probes import predicted, probe_for

CPU = torch.device("cpu")
DECODER = llama(seq_len=64)
# So long that what is too small to offload is the same at the traced batch and at a larger one.
LONG = llama(seq_len=256)
NUMBERS = 200  # bytes
EAGER = {"attention": "eager"}  # the CPU's fused attention is not the GPU's


def trained_weights(recipe):
    torch.manual_seed(0)
    step = TrainingStep(DECODER, recipe, CPU)
    torch.manual_seed(1)
    for _ in range(2):
        step(4)
    return torch.cat([weight.detach().flatten() for weight in step.model.parameters()])


@pytest.mark.parametrize("kind", ["none", "full", "selective"])
def test_offloading_activations_trains_the_same_weights(kind):
    usual, offloaded = (
        trained_weights(mm.Recipe(gradient_checkpointing=kind, optimizer="sgd", offload=what))
        for what in ("none", "activations")
    )

    assert torch.equal(usual, offloaded)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd"}, {"weights": "bf16"}], ids=str)
def test_an_optimizer_on_the_host_trains_the_same_weights(options):
    usual, offloaded = (trained_weights(mm.Recipe(offload=what, **options)) for what in ("none", "optimizer"))

    torch.testing.assert_close(usual, offloaded)


@pytest.mark.parametrize(
    "recipe",
    [
        mm.Recipe(offload="activations", **EAGER),
        mm.Recipe(offload="activations", gradient_checkpointing="full", **EAGER),
        mm.Recipe(offload="optimizer", **EAGER),
        mm.Recipe(offload="optimizer", lora=4, **EAGER),
    ],
    ids=lambda recipe: recipe.describe(),
)
def test_what_is_offloaded_is_predicted_as_it_is_measured(recipe):
    real, expected = probe_for(LONG, recipe, cap_bytes=GIB).measure(6), predicted(LONG, recipe).measure(6)

    # Except for numbers without a dimension, such as the loss and the optimizer's counters.
    assert real.peak_host_bytes == pytest.approx(expected.peak_host_bytes, abs=NUMBERS)
    for part in ("weights_bytes", "gradients_bytes", "optimizer_state_bytes", "activations_bytes"):
        assert getattr(real.breakdown, part) == pytest.approx(getattr(expected.breakdown, part), abs=NUMBERS)


def test_the_device_holds_less_and_the_step_takes_longer():
    wide = llama(seq_len=64, hidden_size=256, intermediate_size=1024)
    usual, activations, optimizer = (
        predicted(wide, mm.Recipe(precision="bf16", offload=what)).measure(512)
        for what in ("none", "activations", "optimizer")
    )

    assert activations.breakdown.activations_bytes < 0.1 * usual.breakdown.activations_bytes
    assert activations.peak_host_bytes > 0.9 * usual.breakdown.activations_bytes
    assert usual.breakdown.optimizer_state_bytes > 0
    assert optimizer.breakdown.optimizer_state_bytes == optimizer.breakdown.gradients_bytes == 0
    assert usual.peak_host_bytes == 0
    assert min(activations.step_seconds, optimizer.step_seconds) > usual.step_seconds


def test_the_state_of_an_optimizer_on_the_host_stays_there_between_steps():
    probe = predicted(DECODER, mm.Recipe(offload="optimizer"))
    weights = 4 * probe.info.parameters

    # A copy of the weights, the gradients and two moments; the first two are pinned, and so rounded up.
    assert 4 * weights <= probe.measure(4).peak_host_bytes <= 6 * weights
    assert probe.try_batch(4).peak_host_bytes == probe.measure(4).peak_host_bytes


def saved(function, *given):
    """The bytes on the host, and the gradients of what was given."""
    meter = HostMeter()
    with OffloadedActivations(torch.nn.Identity(), StandInLink(meter)):
        result = function(*given)
    held = meter.held_bytes
    result.sum().backward()
    assert meter.held_bytes == 0 or result.grad_fn is not None
    return held, [one.grad for one in given]


def test_memory_is_copied_once_however_many_views_of_it_are_saved():
    def function(x):
        doubled = 2 * x
        return doubled * doubled.T * doubled[:32].repeat(2, 1).sin()

    x = torch.rand(64, 64, requires_grad=True)
    held, (offloaded,) = saved(function, x)
    x.grad = None
    function(x).sum().backward()

    assert torch.equal(offloaded, x.grad)
    saved_tensors = 5  # doubled; its product with its transpose; the repeated half, its sine, and what is left
    assert held <= saved_tensors * pinned_bytes(x.nbytes)


def test_weights_and_small_tensors_stay():
    layer = torch.nn.Linear(64, 64)
    meter = HostMeter()
    with OffloadedActivations(layer, StandInLink(meter)):
        kept = layer(torch.rand(8, 64, requires_grad=True))

    assert meter.held_bytes == 0
    kept.sum().backward()


def test_a_graph_can_be_used_twice():
    x = torch.rand(64, 64, requires_grad=True)
    with OffloadedActivations(torch.nn.Identity(), StandInLink(HostMeter())):
        squares = (x * x).exp().sum()
    squares.backward(retain_graph=True)
    first = x.grad.clone()
    squares.backward()

    torch.testing.assert_close(x.grad, 2 * first)


def test_a_host_without_room_is_told_before_anything_is_taken(monkeypatch):
    monkeypatch.setattr("memorymark.devices.host_memory.available_host_bytes", lambda: MIB)
    trial = probe_for(DECODER, mm.Recipe(offload="activations"), cap_bytes=GIB).try_batch(64)

    assert not trial.fits
    assert trial.failure.kind == "memory"
    assert "the host has" in trial.failure.message
    assert trial.peak_host_bytes <= MIB


def test_a_step_that_failed_leaves_nothing_on_the_host():
    probe = probe_for(DECODER, mm.Recipe(offload="optimizer", optimizer="sgd"), cap_bytes=MIB)

    assert not probe.try_batch(256).fits
    assert probe.clean


def test_what_no_gpu_has_confirmed_is_said():
    for what in ("activations", "optimizer"):
        assert "offload" in predicted(DECODER, mm.Recipe(offload=what)).info.unchecked_options


def test_an_optimizer_of_ones_own_is_not_offloaded():
    own = mm.Workload(
        DECODER.build, DECODER.batch, name="Llama", optimizer=lambda model: torch.optim.SGD(model.parameters())
    )

    with pytest.raises(mm.UsageError, match="has its own optimizer, which stays; drop offload="):
        TrainingStep(own, mm.Recipe(offload="optimizer"), CPU)
