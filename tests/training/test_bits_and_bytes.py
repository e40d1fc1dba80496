import pytest
import torch

import memorymark as mm
from memorymark.training.eight_bit import StandInAdamW8bit
from memorymark.training.optimizers import make_optimizer
from support.probes import predicted
from support.tiny import tiny


def test_the_state_is_that_of_bitsandbytes():
    """What AdamW8bit of bitsandbytes 0.50 made for the same parameters."""
    large, small = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((70, 300), (70,)))
    for parameter in (large, small):
        parameter.grad = torch.zeros_like(parameter)
    optimizer = StandInAdamW8bit([large, small], lr=1e-3)

    optimizer.step()

    shapes = {name: (tuple(value.shape), value.dtype) for name, value in optimizer.state[large].items()}
    assert shapes == {
        "state1": ((70, 300), torch.uint8),
        "state2": ((70, 300), torch.uint8),
        "absmax1": ((83,), torch.float32),
        "absmax2": ((83,), torch.float32),
        "qmap1": ((256,), torch.float32),
        "qmap2": ((256,), torch.float32),
    }
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in optimizer.state[small].items()}
    assert shapes == {"state1": ((70,), torch.float32), "state2": ((70,), torch.float32)}


def test_a_prediction_has_a_quarter_of_the_state():
    def build():
        return torch.nn.Sequential(torch.nn.Linear(512, 512, bias=False))

    def batch(size, device):
        return {"input": torch.rand(size, 512, device=device)}

    workload = mm.Workload(build=build, batch=batch, loss=lambda model, batch: model(batch["input"]).mean())

    full, eight = (
        predicted(workload, mm.Recipe(optimizer=name)).measure(4).breakdown.optimizer_state_bytes
        for name in ("adamw", "adamw8bit")
    )

    blocks = 512 * 512 // 256
    assert eight == 2 * 512 * 512 + 2 * 4 * blocks + 2 * 4 * 256
    assert 4 * eight < 1.05 * full


def test_without_bitsandbytes_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.optim", None)

    with pytest.raises(mm.UsageError, match="pip install bitsandbytes"):
        make_optimizer(tiny().build(), mm.Recipe(optimizer="adamw8bit"))
