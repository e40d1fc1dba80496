"""Facts of a training that others decide by: never words of a sentence."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.advice.fitting import facts_of as facts_for_advice
from memorymark.models.workloads import workload_of
from memorymark.question.changes import CHANGES
from memorymark.training.facts import facts_of
from memorymark.training.step import TrainingStep
from support.probes import predicted, probe_for
from support.tiny import tiny


class OwnCnn(nn.Module):
    """One convolution, called by its loss."""

    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 4, 3)

    def forward(self, x, labels=None):
        return SimpleNamespace(loss=self.features(x).mean())


def images(size, device):
    return {"x": torch.rand(size, 3, 8, 8, device=device), "labels": torch.zeros(size, device=device)}


def step_of(workload, recipe=None):
    return TrainingStep(workload, recipe or mm.Recipe(), torch.device("cpu"))


def cnn(**more):
    return mm.Workload(OwnCnn, images, name="cnn", **more)


@pytest.mark.parametrize("sample", ["", "my own pictures", "128 tokens"])
@pytest.mark.parametrize(
    "made", [probe_for, lambda workload: predicted(workload, mm.Recipe())], ids=["measured", "predicted"]
)
def test_a_cnn_of_ones_own_may_be_advised_channels_last_whatever_its_sample_is_called(made, sample):
    info = made(cnn(sample=sample)).info
    facts = facts_for_advice(info)

    assert info.convolves_images
    assert facts.tokens == 0
    assert CHANGES["channels_last"].to(mm.Request(model="resnet"), facts).recipe.channels_last


def test_what_has_no_convolutions_or_no_images_convolves_no_images():
    def numbers(size, device):
        return {"x": torch.zeros(size, 3, 8, 8, dtype=torch.long, device=device)}

    assert not facts_of(step_of(tiny())).convolves_images
    assert not facts_of(step_of(mm.Workload(OwnCnn, numbers))).convolves_images
    assert not facts_of(step_of(mm.Workload(lambda: nn.Linear(8, 8), images))).convolves_images


@pytest.mark.parametrize(
    ("model", "sizes", "convolves"),
    [
        ("gpt2", {"tokens": 64}, False),
        ("resnet", {"pixels": 64}, True),
        ("clip-base", {"tokens": 16, "pixels": 64}, True),
    ],
)
def test_models_by_name_say_the_sizes_of_their_samples_in_numbers(model, sizes, convolves):
    workload = workload_of(mm.Request(model=model, small=True))
    facts = facts_of(step_of(workload))

    assert facts.convolves_images == convolves
    assert facts.sample_sizes == sizes


@pytest.mark.parametrize(
    ("make", "is_sgd"),
    [
        (lambda model: torch.optim.SGD(model.parameters()), True),
        (lambda model: torch.optim.AdamW(model.parameters()), False),
        (None, False),
    ],
)
def test_an_sgd_of_ones_own_is_known_by_what_it_is(make, is_sgd):
    class Mine(torch.optim.SGD):
        """Called otherwise, and SGD all the same."""

    assert facts_of(step_of(cnn(optimizer=make))).optimizer_is_sgd == is_sgd
    assert facts_of(step_of(cnn(optimizer=lambda model: Mine(model.parameters())))).optimizer_is_sgd


def test_experts_are_counted_and_their_type_is_known():
    step = step_of(workload_of(mm.Request(model="mixtral-8x7b", small=True)))
    facts = facts_of(step)

    assert (facts.experts, facts.experts_dtype) == (4, "fp32")
    assert facts_of(step_of(tiny())).experts == 0
