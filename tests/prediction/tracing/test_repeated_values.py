"""Large tensors that repeat few values: their values are known and take no memory."""

import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing.values import known
from support.operations import tracing


def test_a_mask_of_whole_images_is_known_and_takes_no_memory():
    with tracing():
        mask = torch.ones(16, 1, 1024, 1024)
        of_features = interpolate(mask.float(), size=(32, 32)).bool()
        assert mask.all()
        assert of_features.all()
        assert known(mask).untyped_storage().nbytes() <= 4


def test_the_padding_in_a_mask_of_all_pairs_of_tokens_is_known():
    with tracing():
        padding = torch.ones(4, 4096, dtype=torch.bool)
        padding[:, 4000:] = False
        every_query = torch.arange(4096)[None, None, :, None] >= 0
        pairs = (padding[:, None, None, :] & every_query).expand(4, 1, 4096, 4096)
        bias = torch.where(pairs, 0.0, -1e9)
        of_first = bias[:, 0, 0, :]
        assert (of_first < 0).any()
        assert (of_first == 0).sum().item() == 4 * 4000


def test_what_is_written_over_a_part_of_repeated_values_is_known_there_and_no_more_elsewhere():
    with tracing():
        bias = torch.zeros(4, 1, 1024, 1024)
        of_first = bias[:, 0, 0, :]
        of_first[torch.arange(1024).expand(4, 1024) == 0] = 1.0
        assert (of_first > 0).sum().item() == 4
        with pytest.raises(CannotPredictError):
            bias.sum().item()


def test_repeated_values_are_forgotten_when_something_unknown_is_written_over_them():
    layer = nn.Linear(1024, 1024)
    with tracing(layer):
        values = torch.zeros(1024, 1024)
        assert values.sum().item() == 0
        values.copy_(layer.weight)
        with pytest.raises(CannotPredictError):
            values.sum().item()


def test_random_numbers_of_repeated_chances_are_not_known():
    with tracing():
        drawn = torch.bernoulli(torch.full((1024, 1024), 0.5))
        with pytest.raises(CannotPredictError):
            drawn.sum().item()
