"""Steps that are recorded inside real loops, with tensors counted in place of a GPU's allocator."""

import json
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from memorymark.units import KIB, MIB
from memorymark.watch.maximum import estimate_maximum
from memorymark.watch.report import break_down
from support.watched_loops import WIDTH, CountedGpu, counted, loader, train


def made():
    """A model whose memory is mostly activations, and its optimizer."""
    model = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    return model, torch.optim.AdamW(model.parameters(), foreach=True)


def counted_training(batch_size, capacity_bytes, every=1, steps=8, *, closure=False):
    """Trains with counted tensors; gives the observation and the peak."""
    with counted(capacity_bytes) as (detector, tracker):
        model, optimizer = made()
        for index in range(1, steps * every + 1):

            def passes():
                loss = model(torch.randn(batch_size, WIDTH)).square().mean()
                loss.backward()
                return loss

            is_update = index % every == 0
            if closure and is_update:
                optimizer.step(passes)
            else:
                passes()
                if is_update:
                    optimizer.step()
            if is_update:
                optimizer.zero_grad()
    return detector.observation(), tracker.peak_bytes


def test_a_step_that_is_given_its_passes_is_recorded_like_any_other():
    """As Lightning calls its optimizers."""
    seen, other = (counted_training(64, 16 * MIB, closure=closure)[0] for closure in (False, True))
    assert [phase for phase, _ in other.recording.marks] == [phase for phase, _ in seen.recording.marks]
    for (_, there), (_, here) in zip(other.recording.marks, seen.recording.marks, strict=True):
        assert abs(there - here) <= 2
    assert break_down(other).gradients_bytes == break_down(seen).gradients_bytes > 0
    assert estimate_maximum(other).maximum == pytest.approx(estimate_maximum(seen).maximum, rel=0.01)


@pytest.mark.parametrize("samples", [480, 4000])
@pytest.mark.parametrize("outside", [False, True], ids=["no_grad around", "no_grad inside"])
def test_an_evaluation_between_the_steps_is_not_recorded(outside, samples):
    def observe(evaluates):
        with counted(16 * MIB) as (detector, _):
            model, optimizer = made()
            training, held_back = loader(samples=5 * 48, batch_size=48), loader(samples=samples, batch_size=samples)
            for _ in range(3):
                for inputs, _ in training:
                    model(inputs).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                if evaluates:
                    model.eval()
                    with nullcontext() if outside else torch.no_grad():
                        for inputs, _ in held_back:
                            with torch.no_grad():
                                model(inputs)
                    model.train()
        return detector.observation()

    plain, evaluated = observe(evaluates=False), observe(evaluates=True)
    assert evaluated.problem is None
    assert (evaluated.batch_size, evaluated.recording.batch_size) == (48, 48)
    assert len(evaluated.recording.events) == pytest.approx(len(plain.recording.events), abs=4)
    assert estimate_maximum(evaluated).maximum == pytest.approx(estimate_maximum(plain).maximum, rel=0.02)


@pytest.mark.parametrize("loads", [False, True])
def test_an_evaluation_before_the_training_says_nothing_of_its_peak_and_its_batch(loads):
    """As nanoGPT evaluates before its first step, here with ten times the batch."""

    def observe(evaluates):
        with counted(40 * MIB) as (detector, _):
            model, optimizer = made()
            if evaluates:
                model.eval()
                with torch.no_grad():
                    for inputs, _ in loader(samples=6000, batch_size=6000):
                        model(inputs)
                model.train()
            batches = loader(samples=480, batch_size=48) if loads else ((torch.randn(48, WIDTH), 0) for _ in range(10))
            for inputs, _ in batches:
                model(inputs).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        return detector.observation()

    plain, evaluated = observe(evaluates=False), observe(evaluates=True)
    assert (evaluated.steps, evaluated.samples, evaluated.batch_size) == (10, 480, 48)
    assert estimate_maximum(evaluated).maximum == pytest.approx(estimate_maximum(plain).maximum, rel=0.01)
    assert plain.training_peak_allocated_bytes == plain.memory.peak_allocated_bytes
    assert evaluated.memory.peak_allocated_bytes > 2 * plain.memory.peak_allocated_bytes
    assert evaluated.training_peak_allocated_bytes == pytest.approx(plain.memory.peak_allocated_bytes, rel=0.02)
    assert break_down(evaluated).activations_bytes == pytest.approx(break_down(plain).activations_bytes, rel=0.05)


def test_where_a_loader_tells_of_batches_nothing_stays_on_the_model():
    with counted(16 * MIB) as (detector, _):
        model, optimizer = made()
        hooks = []
        for inputs, _ in loader(samples=12 * 8, batch_size=8):
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            hooks.append(sum(len(m._forward_hooks) for m in model.modules()))
    recording = detector.observation().recording
    assert [phase for phase, _ in recording.marks] == ["forward", "backward", "optimizer"]
    assert hooks[7:] == [0] * 5


def test_a_failure_while_a_step_is_recorded_ends_the_recording():
    opened = []

    class Broken(CountedGpu):
        def __init__(self, *given):
            super().__init__(*given)
            opened.append(self)

        def keys_of(self, tensors):
            raise RuntimeError("no storage")

    with counted(16 * MIB, Broken) as (detector, _):
        model, optimizer = made()
        train(model, loader(samples=48), optimizer)
    assert detector.observation().problem == "RuntimeError: no storage"
    assert [gpu.recording for gpu in opened] == [False]
    assert sum(len(m._forward_hooks) for m in model.modules()) == 0


@pytest.mark.parametrize("every", [1, 3])
def test_one_recorded_step_says_how_large_the_batch_may_be(every):
    capacity = 16 * MIB
    seen, _ = counted_training(64, capacity, every)
    assert seen.problem is None
    assert seen.micro_batches == every
    estimate = estimate_maximum(seen)
    true = estimate.maximum
    assert counted_training(true, capacity, every, steps=5)[1] <= 1.001 * capacity
    assert counted_training(int(1.05 * true), capacity, every, steps=5)[1] > capacity
    assert 0.7 * true < estimate.recommended < true


def test_the_peak_is_broken_down_into_what_it_is_made_of():
    seen, peak = counted_training(2048, 100 * MIB)
    breakdown = break_down(seen)
    weights = 4 * (WIDTH * 512 + 512 + 512 * 512 + 512 + 512 + 1)
    assert breakdown.weights_bytes == weights
    assert abs(breakdown.optimizer_state_bytes - 2 * weights) < KIB
    assert breakdown.activations_bytes >= 2048 * 512 * 4 * 2
    assert breakdown.total_bytes == peak


def classifier():
    """A small model whose outputs are large, as the logits of language models are."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2000))
    return model, torch.optim.AdamW(model.parameters(), foreach=True)


def step_that_keeps(model, inputs, labels):
    logits = model(inputs)
    nn.functional.cross_entropy(logits, labels).backward()
    return logits


def step_that_drops(model, inputs, labels):
    nn.functional.cross_entropy(model(inputs), labels).backward()


def classified(step, batch_size, capacity_bytes, *, every=1, steps=8):
    """Trains the classifier with counted tensors; gives the observation and the peak."""
    with counted(capacity_bytes) as (detector, tracker):
        model, optimizer = classifier()
        for index in range(1, steps * every + 1):
            outputs = step(model, torch.randn(batch_size, WIDTH), torch.zeros(batch_size, dtype=torch.long))  # noqa: F841 - kept
            if index % every == 0:
                optimizer.step()
                optimizer.zero_grad()
    return detector.observation(), tracker.peak_bytes


@pytest.mark.parametrize("every", [1, 3])
def test_a_loop_that_keeps_its_outputs_is_told_what_dropping_them_is_worth(every):
    capacity = 16 * MIB
    keeps, drops = (classified(step, 48, capacity, every=every)[0] for step in (step_that_keeps, step_that_drops))
    assert (keeps.problem, drops.problem) == (None, None)
    assert (keeps.keeps_outputs, drops.keeps_outputs) == (True, False)
    kept, dropped = estimate_maximum(keeps), estimate_maximum(drops)
    assert dropped.maximum_without_outputs is None
    assert kept.maximum < 0.9 * dropped.maximum
    assert kept.maximum_without_outputs == pytest.approx(dropped.maximum, rel=0.01)
    assert classified(step_that_keeps, int(0.99 * kept.maximum), capacity, every=every, steps=4)[1] <= capacity
    assert (
        classified(step_that_drops, int(0.99 * kept.maximum_without_outputs), capacity, every=every, steps=4)[1]
        <= capacity
    )


def test_a_recording_of_kept_outputs_survives_its_file():
    seen, _ = classified(step_that_keeps, 64, 16 * MIB)
    recording = seen.recording
    assert recording.kept_outputs
    assert type(recording).from_dict(json.loads(json.dumps(recording.to_dict()))) == recording


def test_outputs_that_the_backward_pass_needs_are_not_kept_by_the_loop(detector):
    model, optimizer = classifier()
    for _ in range(5):
        outputs = model(torch.randn(4, WIDTH))
        outputs.square().mean().backward()
        optimizer.step()
    assert detector.observation().keeps_outputs is False


@pytest.mark.parametrize(("step", "keeps"), [(step_that_keeps, True), (step_that_drops, False)])
def test_with_a_loader_and_without_a_gpu_the_loop_is_known_too(detector, step, keeps):
    model, optimizer = classifier()
    for inputs, _ in loader():
        outputs = step(model, inputs, torch.zeros(len(inputs), dtype=torch.long))  # noqa: F841 - kept
        optimizer.step()
    assert detector.observation().keeps_outputs is keeps
    assert sum(len(module._forward_hooks) for module in model.modules()) == 0


def test_the_outputs_themselves_are_not_kept_by_the_detector(detector):
    model, optimizer = classifier()
    for _ in range(5):
        outputs = model(torch.randn(4, WIDTH))
        outputs.mean().backward()
        optimizer.step()
    reference = weakref.ref(outputs)
    del outputs
    assert reference() is None
