"""How large a batch is, by what a data loader gives or a module is called with."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from memorymark.watch.batches import size_of, size_of_arguments


def images(count, channels=3):
    """Of different sizes, as they come from a data set for detection."""
    return [torch.zeros(channels, 32 + index, 48) for index in range(count)]


def targets(count):
    return [{"boxes": torch.zeros(5, 4), "labels": torch.zeros(5)} for _ in range(count)]


def detection_collate(samples):
    """As in torchvision's references."""
    return tuple(zip(*samples, strict=True))


@pytest.mark.parametrize("count", [1, 2, 4, 12])
def test_images_and_targets_that_are_not_stacked_count_as_samples(count):
    batch = detection_collate(zip(images(count), targets(count), strict=True))
    assert size_of(batch).samples == count
    assert size_of({"images": images(count), "targets": targets(count)}).samples == count
    assert size_of_arguments((images(count), targets(count))).samples == count
    assert size_of_arguments((images(count),)).samples == count


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_list_of_images_counts_as_samples(sequence, count, channels):
    batch = sequence(images(count, channels))
    assert size_of(batch)[:2] == (count, sum(image.numel() for image in batch))


def test_sequences_of_different_lengths_count_as_samples():
    assert size_of([torch.zeros(length, 17, 3) for length in (40, 50, 60)]).samples == 3


@pytest.mark.parametrize("size", [1, 3, 4, 32])
def test_tensors_that_share_their_leading_dimension_are_one_batch(size):
    series, later, features = torch.zeros(size, 96, 7), torch.zeros(size, 24, 7), torch.zeros(size, 257, 100)
    for batch in (
        series,
        (series, later),
        [features, features],
        (series, later, torch.zeros(size, 96, 4), torch.zeros(size, 24, 4)),
        ((series, later), torch.zeros(size)),
        (torch.zeros(size, 3, 32, 32), torch.zeros(size)),
        {"input_ids": torch.zeros(size, 128), "labels": torch.zeros(size)},
        SimpleNamespace(x=features, y=later),
    ):
        assert size_of(batch).samples == size


def test_what_a_loader_makes_of_one_tensor_is_one_batch():
    assert size_of(next(iter(DataLoader(TensorDataset(torch.zeros(8, 257, 100)), batch_size=4)))).samples == 4


def test_tensors_that_a_module_is_called_with_are_no_samples():
    series, state = torch.zeros(16, 96, 40), torch.zeros(1, 16, 64)
    assert size_of_arguments((series, state)).samples == 16
    assert size_of_arguments((torch.zeros(4, 20, 512),) * 3).samples == 4


def test_samples_without_tensors_are_counted():
    assert size_of(["a text"] * 5).samples == 5
    assert size_of_arguments((["a text"] * 5, True)).samples == 5
    assert size_of_arguments(([224, 224], torch.zeros(16, 3, 224, 224))).samples == 16
    assert size_of(7) is size_of([]) is size_of_arguments((7,)) is None
