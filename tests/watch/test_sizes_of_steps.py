"""How many samples a step has: networks that take turns, and batches whose first dimension is time."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from memorymark.watch.detector import Detector
from memorymark.watch.hooks import install, uninstall

LENGTH, SAMPLES, WORDS = 35, 20, 50


@pytest.fixture
def detector():
    detector = Detector()
    install(detector)
    yield detector
    uninstall(detector)


def test_a_gan_without_a_data_loader_counts_each_sample_once(detector):
    maker, judge = nn.Linear(8, 16), nn.Linear(16, 1)
    of_judge = torch.optim.Adam(judge.parameters())
    of_maker = torch.optim.Adam(maker.parameters())
    for _ in range(40):
        judge(torch.randn(5, 16)).mean().backward()
        fake = maker(torch.randn(5, 8))
        judge(fake.detach()).mean().backward()
        of_judge.step()
        judge(fake).mean().backward()
        of_maker.step()
    seen = detector.observation()
    assert (seen.steps, seen.samples, seen.batch_size, seen.micro_batches) == (40, 200, 5, 1)


def test_two_forward_passes_for_one_backward_pass_are_one_batch(detector):
    """As in a siamese network."""
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        for _ in range(2):
            (model(torch.randn(6, 8)) - model(torch.randn(6, 8))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    seen = detector.observation()
    assert (seen.steps, seen.samples, seen.batch_size, seen.micro_batches) == (10, 120, 6, 2)


class Words(nn.Module):
    """Predicts the next word, as pytorch's word_language_model does: time first."""

    def __init__(self, layer, *, first="time", time_inside=True):
        super().__init__()
        self.embed, self.layer, self.head = nn.Embedding(WORDS, 16), layer, nn.Linear(16, WORDS)
        self.turns = (first == "batch") == time_inside

    def forward(self, words, hidden=None):
        inside = self.embed(words).transpose(0, 1) if self.turns else self.embed(words)
        if isinstance(self.layer, nn.RNNBase):
            inside, hidden = self.layer(inside, hidden)
            return self.head(inside), hidden
        return self.head(self.layer(inside)), hidden


def layers(*, batch_first=False):
    return {
        "lstm": nn.LSTM(16, 16, 2, batch_first=batch_first),
        "attention": nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first), 1, enable_nested_tensor=False
        ),
    }


def train_on(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for words in batches:
        model(words)[0].mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("layer", ["lstm", "attention"])
@pytest.mark.parametrize("loads", [False, True])
def test_where_time_comes_first_the_batch_is_the_second_dimension(detector, layer, loads):
    chunks = [torch.randint(WORDS, (LENGTH, SAMPLES)) for _ in range(9)] + [torch.randint(WORDS, (7, SAMPLES))]
    train_on(Words(layers()[layer]), DataLoader(chunks, batch_size=None) if loads else chunks)
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.samples) == (10, SAMPLES, 10 * SAMPLES)
    assert (seen.batch_dimension, seen.batch_basis) == (1, "layers")


def test_where_time_comes_first_and_updates_are_made_by_hand_both_are_seen(detector):
    """As pytorch's word_language_model does it, to the end of its data."""
    model = Words(layers()["lstm"])
    for length in (*[LENGTH] * 11, 7):
        model.zero_grad()
        model(torch.randint(WORDS, (length, SAMPLES)))[0].mean().backward()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
    detector.ended(None)
    seen = detector.observation()
    assert (seen.steps, seen.batch_size, seen.samples, seen.batch_dimension) == (12, SAMPLES, 12 * SAMPLES, 1)


@pytest.mark.parametrize("layer", ["lstm", "attention"])
@pytest.mark.parametrize("inside", ["batch first", "time first"])
def test_where_the_batch_comes_first_it_stays_the_first(detector, layer, inside):
    time_inside = inside == "time first"
    model = Words(layers(batch_first=not time_inside)[layer], first="batch", time_inside=time_inside)
    train_on(model, [torch.randint(WORDS, (SAMPLES, LENGTH)) for _ in range(10)])
    seen = detector.observation()
    assert (seen.batch_size, seen.batch_dimension, seen.batch_basis) == (SAMPLES, 0, "layers")


def test_cells_called_one_by_one_tell_the_batch(detector):
    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 1)

        def forward(self, series):
            state = None
            for values in series:
                state = self.cell(values, state)
            return self.head(state)

    train_on(ByHand(), [torch.randn(12, 5, 4) for _ in range(6)])
    seen = detector.observation()
    assert (seen.batch_size, seen.batch_dimension) == (5, 1)


def test_labels_tell_the_batch_where_no_layer_does(detector):
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, series):
            return self.head(series).mean(0)

    model = Mean()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [(torch.randn(length, 6, 4), torch.zeros(6, dtype=torch.long)) for length in (9, 11, 8, 9, 7)]
    for series, labels in DataLoader(batches, batch_size=None):
        nn.functional.cross_entropy(model(series), labels).backward()
        optimizer.step()
    seen = detector.observation()
    assert (seen.batch_size, seen.batch_dimension, seen.batch_basis) == (6, 1, "labels")


def test_boxes_that_are_once_as_many_as_channels_do_not_tell_the_batch(detector):
    model = nn.Flatten()
    head = nn.Linear(3 * 64, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for boxes in (3, 5, 3, 4):
        batch = (torch.randn(2, 3, 8, 8), torch.randn(boxes, 6))
        for images, _ in DataLoader([batch], batch_size=None):
            head(model(images)).mean().backward()
            optimizer.step()
    seen = detector.observation()
    assert (seen.batch_size, seen.batch_dimension, seen.batch_basis) == (2, 0, "leading")


def test_a_leading_dimension_that_may_be_the_length_is_said_to_be_uncertain(detector):
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 4)

        def forward(self, words):
            return (self.embed(words).cumsum(0),)

    train_on(Sums(), [torch.randint(WORDS, (length, 6)) for length in (9, 11, 8, 9, 7, 12)])
    seen = detector.observation()
    assert (seen.batch_dimension, seen.batch_basis, seen.batch_is_uncertain) == (0, "leading", True)
