import pytest
import torch
from torch import nn

from memorymark.training.repeated_values import DRAWN, RepeatedValues


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_layer_gets_values_of_the_same_spread(dtype):
    torch.manual_seed(0)
    drawn = nn.Linear(2048, 1025, dtype=dtype)
    with RepeatedValues():
        repeated = nn.Linear(2048, 1025, dtype=dtype)
        nn.init.normal_(repeated.weight, 0.5, 0.02)

    assert repeated.weight.dtype == dtype
    assert repeated.weight.mean().item() == pytest.approx(0.5, abs=0.001)
    assert repeated.weight.float().std().item() == pytest.approx(0.02, rel=0.1)
    assert repeated.bias.abs().max() <= drawn.bias.abs().max() * 1.1


def test_the_values_repeat_to_the_last():
    with RepeatedValues():
        filled = torch.empty(2 * DRAWN + 5).uniform_(1, 2)

    assert (filled[:5] == filled[-5:]).all()
    assert filled.min() >= 1


def test_small_and_scattered_tensors_are_drawn_in_full():
    with RepeatedValues():
        small = torch.empty(DRAWN).normal_()
        scattered = torch.empty(2, DRAWN).t().normal_()

    assert small.unique().numel() > DRAWN // 2
    assert scattered.unique().numel() > DRAWN
