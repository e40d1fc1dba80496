"""The detector inside real loops on the CPU, and with a GPU's allocator stood in for by counted tensors."""

import copy
import gc
import json
import os
import pickle
import weakref
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memorymark.devices.tracked import TensorTracker, TrackedRecorder
from memorymark.units import KIB, MIB
from memorymark.watch.detector import Detector
from memorymark.watch.hooks import install, uninstall
from memorymark.watch.observation import DeviceFacts, MemoryFacts
from memorymark.watch.report import break_down, estimate_maximum

WIDTH = 64


@pytest.fixture
def detector():
    detector = Detector()
    install(detector)
    yield detector
    uninstall(detector)


def loader(samples=64, batch_size=4):
    return DataLoader(TensorDataset(torch.randn(samples, WIDTH), torch.randn(samples, 1)), batch_size=batch_size)


def network():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


def train(model, batches, optimizer=None, every=1):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for index, (inputs, targets) in enumerate(batches, 1):
        nn.functional.mse_loss(model(inputs), targets).backward()
        if index % every == 0:
            optimizer.step()
            optimizer.zero_grad()


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


class CountedGpu:
    """What the detector asks of a GPU, with tensors counted on the CPU in place of an allocator."""

    def __init__(self, tracker, capacity_bytes):
        self.tracker, self.capacity_bytes = tracker, capacity_bytes
        self.clock = SimpleNamespace(begin=int, end=int, collect=int, reset=int, seconds=0.0, gaps=0)
        self.sampler = SimpleNamespace(stepped=float, stop=int, reset=int, samples=0)
        self.recorder = None

    def usable(self):
        return True

    def facts(self):
        return DeviceFacts(kind="cuda", name="counted", total_bytes=0, capacity_bytes=self.capacity_bytes)

    def memory(self, *, settled):
        peak = self.tracker.peak_bytes
        return MemoryFacts(peak_allocated_bytes=peak, peak_reserved_bytes=peak, device_bytes=peak, modelled=False)

    def start_recording(self):
        self.recorder = TrackedRecorder(self.tracker)
        return True

    @property
    def recording(self):
        return self.recorder is not None

    def mark(self, phase):
        self.recorder.mark(phase)

    def finish_recording(self):
        recorder, self.recorder = self.recorder, None
        return recorder.finish() if recorder else None

    def abandon_recording(self):
        self.finish_recording()

    def keys_of(self, tensors):
        found = [self.tracker.serial_of(tensor.untyped_storage()) for tensor in tensors]
        return [serial for serial in found if serial is not None]

    def scratch_limit_bytes(self):
        return None


def made():
    """A model whose memory is mostly activations, and its optimizer."""
    model = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    return model, torch.optim.AdamW(model.parameters(), foreach=True)


@contextmanager
def counted(capacity_bytes, open_gpu=CountedGpu):
    """A detector of what is trained with counted tensors, and what counts them."""
    tracker = TensorTracker("cpu")
    detector = Detector(open_gpu=lambda _: open_gpu(tracker, capacity_bytes))
    install(detector)
    try:
        with tracker:
            yield detector, tracker
        detector.ended(None)
    finally:
        uninstall(detector)


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
