"""A model that its owner goes on using is, after a probe, as it was."""

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.units import MIB
from support.own_modules import Lived, differences, snapshot
from support.probes import probe_for
from support.tiny import TinyNet, tiny, tiny_batch


@pytest.fixture
def lived():
    model = Lived()
    for _ in range(3):
        model(**tiny_batch(4, torch.device("cpu"))).loss.backward()
    model.outer.bias.grad = None
    model.norm.eval()
    return model


@pytest.mark.parametrize(
    "recipe",
    [mm.Recipe(), mm.Recipe(optimizer="sgd", train_mode=False), mm.Recipe(precision="fp16")],
    ids=mm.Recipe.describe,
)
@pytest.mark.parametrize("size", [8, 100_000], ids=["fits", "does not fit"])
def test_a_preserved_model_is_untouched(lived, recipe, size):
    parameters, before = list(lived.parameters()), snapshot(lived)

    with probe_for(tiny(build=lambda: lived), recipe, cap_bytes=MIB, preserve=True) as probe:
        assert probe.measure(size).fits == (size == 8)
        assert not torch.equal(torch.get_rng_state(), before["random state"])

    assert differences(snapshot(lived), before) == []
    assert all(now is then for now, then in zip(lived.parameters(), parameters, strict=True))


def test_a_preserved_model_survives_a_crash(lived):
    before = snapshot(lived)

    def crash(model, batch):
        model(**batch).loss.backward()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), probe_for(tiny(build=lambda: lived, loss=crash), preserve=True) as probe:
        probe.measure(8)

    assert differences(snapshot(lived), before) == []


def test_a_preserved_model_survives_a_recipe_it_cannot_follow(lived):
    lived.eval()
    before = snapshot(lived)

    with pytest.raises(mm.UsageError):
        probe_for(tiny(build=lambda: lived), mm.Recipe(gradient_checkpointing=True), preserve=True)

    assert differences(snapshot(lived), before) == []


def test_without_preserve_the_model_is_really_trained(lived):
    before = snapshot(lived)

    with probe_for(tiny(build=lambda: lived)) as probe:
        assert probe.measure(8).fits

    assert not torch.equal(lived.inner.weight, before["value of inner.weight"])


class WithScratch(TinyNet):
    def __init__(self):
        super().__init__()
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x, labels=None):
        self.scratch += 1
        return super().forward(x, labels)


def test_buffers_that_are_not_saved_are_preserved_too():
    model = WithScratch()

    with probe_for(tiny(build=lambda: model), preserve=True) as probe:
        assert probe.measure(8).fits

    assert model.scratch == 0


class WithExtraState(TinyNet):
    seen = "today"

    def get_extra_state(self):
        return {"seen": self.seen}

    def set_extra_state(self, state):
        self.seen = state["seen"]


def test_a_model_with_extra_state_can_be_preserved():
    model = WithExtraState()

    with probe_for(tiny(build=lambda: model), preserve=True) as probe:
        assert probe.measure(8).fits

    assert model.seen == "today"


def test_the_memory_format_of_the_weights_is_preserved():
    model = nn.Conv2d(3, 8, 3)
    before = model.weight.stride()
    workload = mm.Workload(
        build=lambda: model,
        batch=lambda size, device: {"input": torch.rand(size, 3, 8, 8, device=device)},
        loss=lambda model, batch: model(**batch).mean(),
    )

    with probe_for(workload, mm.Recipe(channels_last=True), preserve=True) as probe:
        assert probe.measure(8).fits

    assert model.weight.stride() == before
