"""Loops that update their parameters without an optimizer of torch."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memorymark.watch.detector import Detector
from memorymark.watch.hooks import install, uninstall
from memorymark.watch.verdict import judge


@pytest.fixture
def detector():
    detector = Detector()
    install(detector)
    yield detector
    detector.ended(None)
    uninstall(detector)


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


def by_data(model):
    """As pytorch's word_language_model does it."""
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)


def in_place(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad


def batches(count):
    return [torch.randn(4, 8) for _ in range(count)]


def loaded(count):
    return (inputs for (inputs,) in DataLoader(TensorDataset(torch.randn(4 * count, 8)), batch_size=4))


@pytest.mark.parametrize("data", [batches, loaded])
@pytest.mark.parametrize("update", [by_data, in_place])
@pytest.mark.parametrize("to_none", [True, False])
def test_updates_by_hand_are_steps(detector, data, update, to_none):
    model = network()
    for inputs in data(20):
        model.zero_grad(set_to_none=to_none)
        model(inputs).square().mean().backward()
        update(model)
    detector.ended(None)
    seen = detector.observation()
    assert seen.problem is None
    assert (seen.steps, seen.samples, seen.batch_size, seen.micro_batches) == (20, 80, 4, 1)
    assert [optimizer.name for optimizer in seen.optimizers] == ["own updates"]
    assert seen.model.trainable_parameters == 8 * 16 + 16 + 16 + 1
    assert seen.timed_steps > 10


def test_updates_by_hand_of_several_batches_accumulate(detector):
    model = network()
    for index, inputs in enumerate(batches(24), 1):
        model(inputs).square().mean().backward()
        if index % 3 == 0:
            by_data(model)
            model.zero_grad()
    detector.ended(None)
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.micro_batches) == (8, 4, 3)


def test_gradients_that_are_only_looked_at_are_no_training(detector):
    model = network()
    for inputs in batches(8):
        model.zero_grad()
        model(inputs).square().mean().backward()
    detector.ended(None)
    assert detector.observation().steps == 0
    assert "never trained" in judge(detector.observation()).headline


def test_an_optimizer_that_comes_after_several_batches_counts_alone(detector):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for index, inputs in enumerate(batches(24), 1):
        model(inputs).square().mean().backward()
        if index % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    detector.ended(None)
    seen = detector.observation()
    assert (seen.steps, [one.name for one in seen.optimizers]) == (6, ["SGD"])


def test_the_last_step_before_an_evaluation_counts_even_if_the_model_is_gone_then(detector):
    """As word_language_model loads its best model at the end."""
    model = network()
    for inputs in batches(8):
        model.zero_grad()
        model(inputs).square().mean().backward()
        by_data(model)
    model.eval()
    with torch.no_grad():
        model(torch.randn(4, 8))
    del model
    gc.collect()
    detector.ended(None)
    assert (detector.observation().steps, detector.observation().samples) == (8, 32)


def test_a_model_updated_by_hand_is_not_kept_alive(detector):
    model = network()
    for inputs in batches(8):
        model.zero_grad()
        model(inputs).square().mean().backward()
        by_data(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
