import pytest
import torch

from memorymark.catalog import find_gpu
from memorymark.prediction.tracing.recurrent import GRU_MODE, LSTM_MODE, Recurrent, drops_out
from support.recurrent_layers import RECORDED, passes

H200 = find_gpu("h200")
# Each of cuDNN's buffers begins at a multiple of some bytes, which the formulas leave out.
ALIGNMENT_BYTES = 512


def layer(mode=LSTM_MODE, dtype=torch.float16, batch=64, hidden=512, **facts):
    facts = {"length": 64, "inputs": 512, "layers": 1, "directions": 1, "dropout": False, "train": True, **facts}
    return Recurrent(mode=mode, dtype=dtype, batch=batch, hidden=hidden, **facts)


def of_sizes(row, *, train):
    mode, dtype, *sizes, dropout = row[:9]
    return Recurrent(mode, getattr(torch, dtype), *sizes, dropout=bool(dropout), train=train)


def test_workspaces_reserves_and_weights_are_those_that_cudnn_asks_for():
    assert len(RECORDED["sizes"]) > 1000
    for row in RECORDED["sizes"]:
        training, reserve, inference, weights = row[9:]
        trains, infers = of_sizes(row, train=True), of_sizes(row, train=False)
        assert trains.workspace_bytes(H200) == pytest.approx(training, abs=ALIGNMENT_BYTES), row
        assert infers.workspace_bytes(H200) == pytest.approx(inference, abs=ALIGNMENT_BYTES), row
        assert trains.reserve_bytes == pytest.approx(reserve, abs=ALIGNMENT_BYTES), row
        assert trains.weight_elements * trains.dtype.itemsize == weights, row


def test_nothing_is_reserved_without_training():
    assert layer(train=False).reserve_bytes == 0


@pytest.mark.parametrize(
    ("changed", "persistent"),
    [
        ({}, True),
        ({"mode": 1}, True),
        ({"mode": GRU_MODE}, False),
        ({"dtype": torch.float32}, False),
        ({"dtype": torch.bfloat16}, False),
        ({"layers": 2}, False),
        ({"directions": 2}, False),
        ({"batch": 60}, False),
        ({"batch": 128}, True),
        ({"batch": 136}, False),
        ({"hidden": 500}, False),
        ({"inputs": 300}, False),
        ({"mode": 1, "batch": 96, "hidden": 896}, False),
        ({"hidden": 128, "mode": GRU_MODE, "layers": 3, "dtype": torch.float32}, True),
        ({"hidden": 128, "dtype": torch.bfloat16}, False),
    ],
)
def test_torch_asks_for_persistent_kernels_by_the_shape_of_the_layer(changed, persistent):
    assert layer(**changed).is_persistent(H200, backward=False) is persistent


@pytest.mark.parametrize(
    ("gpu", "persistent"),
    [("t4", False), ("v100-16gb", True), ("a10", False), ("a100-40gb", True), ("l4", False), ("l40s", True)],
)
def test_torch_asks_for_persistent_kernels_by_the_gpu(gpu, persistent):
    assert layer().is_persistent(find_gpu(gpu), backward=True) is persistent


@pytest.mark.parametrize(("mode", "hidden"), [(1, 300), (LSTM_MODE, 150), (GRU_MODE, 192)])
def test_between_two_sizes_only_the_forward_pass_is_persistent(mode, hidden):
    between = layer(mode=mode, hidden=hidden, dtype=torch.float32)
    assert between.is_persistent(H200, backward=False)
    assert not between.is_persistent(H200, backward=True)
    assert between.workspace_bytes(H200) != between.workspace_bytes(H200, backward=True)


@pytest.mark.parametrize(("dropout", "train", "drops"), [(0.1, True, True), (0.0, True, False), (0.1, False, False)])
def test_dropout_counts_in_training_only(dropout, train, drops):
    (forward,), (backward, _) = passes("LSTM", 8, 64, 512, 512, 2, False, "fp32", dropout, train)
    assert Recurrent.of(forward).dropout is drops
    assert drops_out(forward) is drops
    assert not drops_out(backward)
