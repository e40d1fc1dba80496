"""Batches of any size, from what feeds a training."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import memorymark as mm
from memorymark.engine.loader_batches import batches_of

TEXTS = [torch.zeros(length, dtype=torch.long) for length in (3, 9, 5)]


def padded(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)


def test_the_largest_sample_is_repeated():
    batch = batches_of(DataLoader(TEXTS, batch_size=2, collate_fn=padded))

    assert [tuple(batch(size).shape) for size in (1, 4)] == [(1, 9), (4, 9)]


def test_samples_that_a_collator_takes_apart_last():
    samples = [{"x": torch.rand(4), "y": index} for index in range(3)]
    batch = batches_of(DataLoader(samples, collate_fn=lambda many: torch.tensor([one.pop("y") for one in many])))

    assert [len(batch(size)) for size in (2, 5)] == [2, 5]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(TEXTS)


class Batches(IterableDataset):
    def __iter__(self):
        yield {"x": torch.rand(4, 7), "scale": torch.ones(2)}


def test_a_stream_and_whole_batches_are_taken_too():
    stream, whole = (
        batches_of(DataLoader(Stream(), batch_size=2, collate_fn=padded)),
        batches_of(DataLoader(Batches(), batch_size=None)),
    )

    assert stream(5).shape == (5, 9)
    assert [tuple(tensor.shape) for tensor in whole(6).values()] == [(6, 7), (2,)]


def test_a_loader_says_as_much_as_a_function():
    data = TensorDataset(torch.rand(10, 64), torch.zeros(10, dtype=torch.long))
    batches = {"function": lambda n: (torch.rand(n, 64), torch.zeros(n, dtype=torch.long)), "loader": DataLoader(data)}

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    found = {
        name: mm.max_batch_size(nn.Linear(64, 10), batch, loss, gpu="l4", memory_gib=0.1)
        for name, batch in batches.items()
    }

    assert found["loader"] == found["function"] > 1000
