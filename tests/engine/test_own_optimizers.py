"""Optimizers of the caller's: one, or several that share the parameters."""

import pytest
import torch

import memorymark as mm
from support.own_modules import SMALL, Lived, differences, whole
from support.tiny import CLASSES, HIDDEN, PARAMETERS, WIDTH, TinyNet, tiny_batch

CPU = torch.device("cpu")


def two(module):
    """One optimizer for each half of the parameters."""
    return [
        torch.optim.Adam(module.inner.parameters(), lr=0.01),
        torch.optim.SGD([p for name, p in module.named_parameters() if "inner" not in name], lr=0.01, momentum=0.9),
    ]


def workload(**options):
    return mm.Workload(build=TinyNet, batch=tiny_batch, name="tiny", **options)


@pytest.mark.parametrize("where", [SMALL, {"gpu": "a10", "memory_gib": 0.05}], ids=["measured", "predicted"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_two_optimizers_are_stepped_and_both_are_as_they_were(where, kind):
    module = Lived()
    optimizers = kind(two(module))
    for _ in range(2):
        module(**tiny_batch(4, CPU)).loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    before = [whole(module, optimizer) for optimizer in optimizers]

    found = mm.max_batch_size(module, tiny_batch, optimizer=optimizers, **where, max_batch=8)

    assert found == 8
    for optimizer, then in zip(optimizers, before, strict=True):
        assert differences(whole(module, optimizer), then) == []


@pytest.mark.parametrize("ask", [
    lambda made: mm.measure(made, 8, device="cpu"),
    lambda made: mm.predict(made, 8, gpu="a10"),
], ids=["measured", "predicted"])  # fmt: skip
def test_the_state_of_each_is_counted(ask):
    none, both = (
        ask(workload(optimizer=make)).breakdown.optimizer_state_bytes
        for make in (lambda module: torch.optim.SGD(module.parameters(), lr=0.1), two)
    )

    inner = WIDTH * HIDDEN + HIDDEN
    assert none == 0
    assert both >= 4 * (2 * inner + PARAMETERS - inner)
    assert both < 4 * 2 * PARAMETERS + 16 * 512  # blocks of a GPU, and Adam's counters
    assert inner + HIDDEN * CLASSES + CLASSES == PARAMETERS


def test_several_are_named_in_the_report():
    found = mm.analyze(workload(optimizer=two), gpu="a10", max_batch=4, batch_size=2)

    assert found.info.optimizer == "Adam + SGD"


def test_several_go_with_a_gradient_scaler():
    assert mm.max_batch_size(TinyNet(), tiny_batch, optimizer=two, precision="fp16", **SMALL, max_batch=4) == 4


def test_a_step_with_two_trains_what_each_of_them_has():
    updated = []
    module = TinyNet()
    optimizers = two(module)
    for optimizer in optimizers:
        optimizer.register_step_post_hook(lambda one, *_: updated.append(type(one).__name__))

    mm.max_batch_size(module, tiny_batch, optimizer=optimizers, **SMALL, max_batch=1)

    assert updated.count("Adam") == updated.count("SGD") > 0
