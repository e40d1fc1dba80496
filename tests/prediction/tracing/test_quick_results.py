"""What operations on fake tensors return when it is looked up is what they return when they run."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from memorymark.prediction.tracing.quick_results import QuickResults

aten = torch.ops.aten


@pytest.fixture
def fake_mode():
    return FakeTensorMode()


@pytest.fixture
def results(fake_mode):
    return QuickResults(fake_mode)


def made(fake_mode, *shape, **how):
    with fake_mode:
        return torch.empty(*shape, **how)


@pytest.fixture
def ran(monkeypatch):
    """Counts the operations that fake tensors run."""
    counts: dict[object, int] = {}
    dispatch = FakeTensorMode.dispatch

    def counting(self, func, *args, **kwargs):
        counts[func] = counts.get(func, 0) + 1
        return dispatch(self, func, *args, **kwargs)

    monkeypatch.setattr(FakeTensorMode, "dispatch", counting)
    return counts


def test_an_operation_runs_once_for_all_that_are_given_the_same(fake_mode, results, ran):
    a, b = made(fake_mode, 4, 5), made(fake_mode, 5, 6)

    first, second = (results.of(aten.mm.default, (a, b), {}) for _ in range(2))

    assert ran[aten.mm.default] == 1
    assert (second.shape, second.dtype, second.device) == (first.shape, first.dtype, first.device)
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


@pytest.mark.parametrize(
    "other",
    [
        {"dtype": torch.float16},
        {"requires_grad": True},
        {"device": "meta"},
    ],
)
def test_tensors_of_another_kind_are_not_the_same(fake_mode, results, other):
    results.of(aten.relu.default, (made(fake_mode, 4, 5),), {})
    tensor = made(fake_mode, 4, 5, **other)

    found, ran = results.of(aten.relu.default, (tensor,), {}), aten.relu.default(tensor)

    assert (found.dtype, found.device) == (ran.dtype, ran.device)


def test_strides_are_kept(fake_mode, results):
    results.of(aten.relu.default, (made(fake_mode, 4, 5),), {})

    found = results.of(aten.relu.default, (made(fake_mode, 5, 4).t(),), {})

    assert found.stride() == (1, 4)


def test_numbers_of_another_type_are_not_the_same(fake_mode, results):
    whole = made(fake_mode, 4, dtype=torch.int64)

    found = [results.of(aten.add.Scalar, (whole, number), {}).dtype for number in (1, 1.0, True)]

    assert found == [torch.int64, torch.float32, torch.int64]


def test_a_view_is_in_the_memory_of_what_it_is_given(fake_mode, results):
    tensors = [made(fake_mode, 4, 5) for _ in range(2)]

    views = [results.of(aten.slice.Tensor, (tensor, 0, 1, 3), {}) for tensor in tensors]

    for view, tensor in zip(views, tensors, strict=True):
        assert view.untyped_storage()._cdata == tensor.untyped_storage()._cdata
        assert (view.shape, view.storage_offset()) == ((2, 5), 5)


def test_what_is_changed_in_place_is_returned_itself(fake_mode, results):
    pairs = [(made(fake_mode, 4), made(fake_mode, 4)) for _ in range(2)]

    assert all(results.of(aten.add_.Tensor, (a, b), {}) is a for a, b in pairs)


def test_a_result_that_is_written_over_an_input_is_the_one_that_is_written_to(fake_mode, results):
    a, b, c = (made(fake_mode, 4) for _ in range(3))
    results.of(aten.mul.out, (a, b), {"out": a})

    assert results.of(aten.mul.out, (c, b), {"out": a}) is a


def test_a_result_gets_the_shape_that_is_written_to_it(fake_mode, results):
    a, b = made(fake_mode, 4, 5), made(fake_mode, 5, 6)
    for _ in range(2):
        result = made(fake_mode, 0)
        results.of(aten.mm.out, (a, b), {"out": result})

        assert result.shape == (4, 6)
