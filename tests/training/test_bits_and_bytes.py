import pytest
import torch

import memorymark as mm
from memorymark.training.bits_and_bytes import StandInAdamW8bit, StandInLion
from memorymark.training.optimizers import make_optimizers
from support.probes import predicted
from support.tiny import tiny

LARGE, SMALL = (70, 300), (70,)


def state_after_a_step(make, *shapes):
    """The types and shapes of an optimizer's state, parameter by parameter."""
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer = make(parameters)
    optimizer.step()
    return [
        {name: (tuple(value.shape), value.dtype) for name, value in optimizer.state[parameter].items()}
        for parameter in parameters
    ]


def test_the_state_is_that_of_bitsandbytes():
    """What AdamW8bit of bitsandbytes 0.50 made for the same parameters."""
    large, small = state_after_a_step(lambda parameters: StandInAdamW8bit(parameters, lr=1e-3), LARGE, SMALL)

    assert large == {
        "state1": (LARGE, torch.uint8),
        "state2": (LARGE, torch.uint8),
        "absmax1": ((83,), torch.float32),
        "absmax2": ((83,), torch.float32),
        "qmap1": ((256,), torch.float32),
        "qmap2": ((256,), torch.float32),
    }
    assert small == {"state1": (SMALL, torch.float32), "state2": (SMALL, torch.float32)}


def test_lion_keeps_one_moment_in_fp32():
    """What Lion of bitsandbytes 0.50 made for the same parameters."""
    states = state_after_a_step(lambda parameters: StandInLion(parameters, lr=1e-3), LARGE, SMALL)

    assert states == [{"state1": (LARGE, torch.float32)}, {"state1": (SMALL, torch.float32)}]


def one_layer(width):
    def build():
        return torch.nn.Sequential(torch.nn.Linear(width, width, bias=False))

    def batch(size, device):
        return {"input": torch.rand(size, width, device=device)}

    return mm.Workload(build=build, batch=batch, loss=lambda model, batch: model(batch["input"]).mean())


def test_a_prediction_has_a_quarter_of_the_state():
    workload = one_layer(512)

    full, eight, lion = (
        predicted(workload, mm.Recipe(optimizer=name)).measure(4).breakdown.optimizer_state_bytes
        for name in ("adamw", "adamw8bit", "lion")
    )

    blocks = 512 * 512 // 256
    assert eight == 2 * 512 * 512 + 2 * 4 * blocks + 2 * 4 * 256
    assert 4 * eight < 1.05 * full
    assert lion == full / 2


def test_paged_state_is_not_on_the_gpu_but_told():
    workload = one_layer(512)

    plain, paged = (predicted(workload, mm.Recipe(optimizer=name)) for name in ("adamw8bit", "paged-adamw8bit"))
    held, left = (probe.measure(4).breakdown.optimizer_state_bytes for probe in (plain, paged))

    assert paged.info.paged_state_bytes == 2 * 512 * 512 == held - left
    assert plain.info.paged_state_bytes == 0


def test_the_state_of_a_small_parameter_is_never_paged():
    small = predicted(one_layer(300), mm.Recipe(optimizer="paged-adamw8bit"))

    assert small.info.paged_state_bytes == 0
    assert small.measure(4).breakdown.optimizer_state_bytes > 2 * 300 * 300


@pytest.mark.parametrize(
    ("name", "called"),
    [("adamw8bit", "8-bit AdamW"), ("paged-adamw8bit", "paged 8-bit AdamW"), ("lion", "Lion")],
)
def test_without_bitsandbytes_a_sentence_says_how_to_get_it(name, called, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.optim", None)

    with pytest.raises(mm.UsageError, match=f"^{called} needs bitsandbytes.*pip install bitsandbytes"):
        make_optimizers(tiny().build(), mm.Recipe(optimizer=name))
