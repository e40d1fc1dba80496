"""A module that was compiled before is run as it was compiled, also where it is only asked for its largest batch."""

import pytest
import torch

import memorymark as mm
from support.tiny import TinyNet, tiny_batch

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("in_place", [False, True], ids=["wrapped", "in place"])
def test_a_compiled_module_is_called_compiled(in_place):
    calls = []

    def backend(graph, _examples):
        def run(*inputs):
            calls.append(graph)
            return graph(*inputs)

        return run

    module = TinyNet().cuda()
    if in_place:
        module.compile(backend=backend)
    else:
        module = torch.compile(module, backend=backend)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    found = mm.max_batch_size(module, tiny_batch, max_batch=64)

    assert found == 64
    assert found.source == "measured"
    assert len(calls) >= sum(trial.steps for trial in found.trials)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_two_optimizers_are_run():
    module = TinyNet().cuda()
    optimizers = [torch.optim.Adam(module.inner.parameters()), torch.optim.SGD(module.outer.parameters(), lr=0.1)]

    assert mm.max_batch_size(module, tiny_batch, optimizer=optimizers, max_batch=64) == 64
    assert [len(optimizer.state) for optimizer in optimizers] == [0, 0]


def test_a_compiled_module_takes_other_memory_than_an_eager_one():
    """A chain of pointwise operations is one kernel when compiled, and keeps less for the backward pass."""

    class Chain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            y = x * self.scale
            for _ in range(6):
                y = torch.sin(y) + torch.cos(y)
            return y.mean()

    def largest(module):
        return mm.max_batch_size(
            module,
            lambda n: torch.rand(n, 2**16, device="cuda"),
            lambda model, batch: model(batch),
            "sgd",
            memory_gib=1,
        )

    assert largest(torch.compile(Chain().cuda())) > 1.3 * largest(Chain().cuda())
