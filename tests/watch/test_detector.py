"""The detector inside real loops on the CPU."""

import copy
import gc
import os
import pickle
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from memorymark.watch.detector import Detector
from memorymark.watch.hooks import install, uninstall
from support.watched_loops import WIDTH, loader, network, train


def test_a_plain_loop(detector):
    train(network(), loader())
    seen = detector.observation()
    assert (seen.steps, seen.samples, seen.batch_size, seen.micro_batches) == (16, 64, 4, 1)
    assert seen.model.parameters == seen.model.trainable_parameters == WIDTH * WIDTH + WIDTH + WIDTH + 1
    assert [optimizer.name for optimizer in seen.optimizers] == ["SGD"]
    assert 0 < seen.waiting_seconds < seen.step_seconds
    assert seen.problem is None


def test_accumulation_is_told_apart_from_the_batch(detector):
    train(network(), loader(), every=4)
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.micro_batches, seen.effective_batch_size) == (4, 4, 4, 16)


def test_the_last_smaller_batch_of_an_epoch_does_not_count_as_the_batch(detector):
    train(network(), loader(samples=62))
    assert detector.observation().batch_size == 4


def test_evaluation_is_no_training(detector):
    model, optimizer = network(), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train(model, loader(samples=24), optimizer)
        with torch.no_grad():
            for inputs, _ in loader(samples=600, batch_size=100):
                model(inputs)
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.micro_batches, seen.samples) == (18, 4, 1, 72)


@pytest.mark.parametrize("in_eval_mode", [True, False])
def test_evaluation_that_loads_its_batches_outside_of_no_grad_is_no_training(detector, in_eval_mode):
    """As transformers' Trainer does it, and those who forget to call eval()."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training, held_back = loader(samples=24), loader(samples=600, batch_size=100)
    for _ in range(3):
        train(model, training, optimizer)
        model.train(not in_eval_mode)
        for inputs, _ in held_back:
            with torch.no_grad():
                model(inputs)
        model.train()
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.micro_batches, seen.samples) == (18, 4, 1, 72)
    assert seen.timed_steps == 18 - 3 - 2  # those with an evaluation in them say nothing of a step


def test_an_evaluation_before_the_first_step_is_forgotten(detector):
    model = network()
    for inputs, _ in loader(samples=600, batch_size=100):
        with torch.no_grad():
            model(inputs)
    train(model, loader(samples=24))
    assert (detector.observation().batch_size, detector.observation().loader.num_workers) == (4, 0)


def test_a_model_that_is_trained_in_evaluation_mode_is_trained(detector):
    model = network().eval()
    train(model, loader(samples=24))
    seen = detector.observation()
    assert (seen.steps, seen.samples, seen.timed_steps) == (6, 24, 3)


def test_two_loaders_that_both_feed_every_step_are_both_the_trainings(detector):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (some, _), (others, _) in zip(loader(samples=40), loader(samples=40), strict=True):
        (model(some).mean() + model(others).mean()).backward()
        optimizer.step()
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.samples) == (10, 4, 80)


def test_a_loop_without_a_data_loader(detector):
    model = network()
    train(model, [(torch.randn(6, WIDTH), torch.randn(6, 1)) for _ in range(12)], every=2)
    seen = detector.observation()
    assert (seen.steps, seen.samples, seen.batch_size, seen.micro_batches) == (6, 72, 6, 2)
    assert seen.between_seconds is not None
    assert seen.loader is None


def test_two_networks_that_take_turns_make_one_step(detector):
    maker, judge = nn.Linear(8, WIDTH), network()
    of_maker = torch.optim.Adam(maker.parameters())
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
    for _ in range(10):
        real = torch.randn(5, WIDTH)
        fake = maker(torch.randn(5, 8))
        (judge(fake.detach()).mean() - judge(real).mean()).backward()
        of_judge.step()
        of_judge.zero_grad()
        (-judge(fake).mean()).backward()
        of_maker.step()
        of_maker.zero_grad()
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.micro_batches) == (10, 5, 1)
    assert [optimizer.name for optimizer in seen.optimizers] == ["SGD", "Adam"]


@pytest.mark.parametrize("optimizers", [8, 9, 20])
def test_any_number_of_optimizers_that_take_turns_make_one_step(detector, optimizers):
    """As where each layer, or each parameter, has one of its own."""
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(optimizers)))
    each = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
    for inputs, _ in loader():
        model(inputs).mean().backward()
        for optimizer in each:
            optimizer.step()
            optimizer.zero_grad()
    seen = detector.observation()
    assert (seen.steps, seen.samples, seen.batch_size, seen.micro_batches, seen.timed_steps) == (16, 64, 4, 1, 13)
    assert seen.model.trainable_parameters == optimizers * (WIDTH * WIDTH + WIDTH)
    assert [optimizer.name for optimizer in seen.optimizers] == ["SGD"]


@pytest.mark.parametrize("has_loader", [True, False])
def test_the_samples_of_a_second_training_count_from_its_first_step(detector, has_loader):
    first, second = network(), network()
    for model in (first, second):
        train(model, loader() if has_loader else [(torch.randn(4, WIDTH), torch.randn(4, 1)) for _ in range(16)])
        model.eval()
    assert (detector.observation().steps, detector.observation().samples) == (32, 128)


def test_a_second_training_takes_the_place_of_the_first(detector):
    train(network(), loader(batch_size=4))
    train(network(), loader(batch_size=8))
    seen = detector.observation()
    assert (seen.steps, seen.batch_size) == (24, 8)


def test_nothing_that_the_script_drops_is_kept_alive(detector):
    model = network()
    train(model, loader())
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert detector.observation().model.name == "Sequential"


def test_a_watched_model_can_be_copied_and_saved(detector):
    model = network()
    train(model, [(torch.randn(6, WIDTH), torch.randn(6, 1)) for _ in range(4)])
    assert model._forward_pre_hooks
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        before = detector.observation().samples
        train(twin, [(torch.randn(6, WIDTH), torch.randn(6, 1))])
        assert detector.observation().samples == before


def test_a_watched_model_is_saved_as_if_nobody_watched(detector, tmp_path):
    """torch loads what is safe only: nothing of ours is."""
    model, path = network(), tmp_path / "model.pt"
    train(model, [(torch.randn(6, WIDTH), torch.randn(6, 1)) for _ in range(4)])
    hooks = len(model._forward_pre_hooks)
    assert hooks
    torch.save(model, path)
    assert len(model._forward_pre_hooks) == hooks
    known = [nn.Sequential, nn.Linear, nn.ReLU]
    with torch.serialization.safe_globals(known):
        assert not torch.load(path, weights_only=True)._forward_pre_hooks
    train(model, [(torch.randn(6, WIDTH), torch.randn(6, 1))])
    assert (detector.observation().steps, detector.observation().samples) == (5, 30)


def test_autocast_is_seen(detector):
    model, optimizer = network(), None
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for inputs, targets in loader():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(inputs), targets.bfloat16())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert detector.observation().autocast == "bfloat16"


@pytest.mark.parametrize("guard", ["no_grad", "eval mode"])
def test_autocast_in_an_evaluation_is_not_the_trainings(detector, guard):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        train(model, loader(samples=24), optimizer)
        model.train(guard != "eval mode")
        with torch.no_grad() if guard == "no_grad" else nullcontext(), torch.autocast("cpu", dtype=torch.bfloat16):
            model(torch.randn(4, WIDTH))
        model.train()
    assert detector.observation().autocast is None


def test_images_of_different_sizes_count_as_samples(detector):
    """As torchvision's detection models are trained."""
    samples = [(torch.randn(3, 16, 16 + index), {"boxes": torch.zeros(1, 4)}) for index in range(24)]
    model = nn.Conv2d(3, 1, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, _ in DataLoader(samples, batch_size=4, collate_fn=lambda batch: tuple(zip(*batch, strict=True))):
        sum(model(image).mean() for image in images).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert (detector.observation().batch_size, detector.observation().samples) == (4, 24)


def test_random_numbers_are_those_of_an_unwatched_run():
    def losses():
        torch.manual_seed(3)
        model = network()
        train(model, loader(samples=2000), torch.optim.AdamW(model.parameters()))
        return [parameter.sum().item() for parameter in model.parameters()]

    alone = losses()
    detector = Detector()
    install(detector)
    watched = losses()
    uninstall(detector)
    assert watched == alone


def test_a_failure_of_the_detector_is_not_the_scripts():
    times = iter([*range(10), None, *range(10, 1000)])  # once it is no number
    detector = Detector(clock=lambda: next(times))
    install(detector)
    try:
        train(network(), loader())
    finally:
        uninstall(detector)
    assert "TypeError" in detector.observation().problem


def test_a_forked_child_is_not_watched(detector):
    train(network(), loader())
    child = os.fork()
    if child == 0:
        os._exit(detector.active)
    assert os.waitpid(child, 0)[1] == 0
    assert detector.active


def test_torch_is_as_it_was_after_the_last_detector():
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    before = _BaseDataLoaderIter.__next__
    first, second = Detector(), Detector()
    install(first)
    install(second)
    train(network(), loader())
    uninstall(first)
    assert _BaseDataLoaderIter.__next__ is not before
    uninstall(second)
    assert _BaseDataLoaderIter.__next__ is before
    assert first.observation().steps == second.observation().steps == 16
