"""Trials that begin as a training does, whatever ran before them."""

import torch

import memorymark as mm
from memorymark.devices import open_device
from memorymark.probe.measured import MeasuredProbe
from memorymark.units import MIB
from support.tiny import TinyNet, tiny_batch


def states_seen(*, steps_before):
    """Whether the optimizer has state, at each step: of a quick trial, one from the start, and a full one."""
    model = TinyNet()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps_before):
        model(**tiny_batch(2, torch.device("cpu"))).loss.backward()
        optimizer.step()
    seen = []

    def loss(model, batch):
        seen.append(bool(optimizer.state))
        return model(**batch).loss

    workload = mm.Workload(lambda: model, tiny_batch, loss, name="tiny", optimizer=lambda _: optimizer)
    device = open_device(mm.Target(device="cpu", memory_cap_bytes=MIB))
    with MeasuredProbe(workload, mm.Recipe(), device, preserve=True) as probe:
        for run in (probe.try_batch, probe.try_batch, probe.try_from_start, probe.measure):
            run(2)
            yield list(seen)
            seen.clear()


def test_only_a_quick_trial_finds_what_others_left():
    first, second, from_start, full = states_seen(steps_before=0)

    assert first == [False, True]
    assert second == [True, True]
    assert from_start == [False, True, True]
    assert full[:3] == [False, True, True]
    assert all(full[1:])


def test_an_optimizer_that_came_with_its_state_keeps_it():
    assert all(all(seen) for seen in states_seen(steps_before=1))
