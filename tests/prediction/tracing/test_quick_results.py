"""What operations on fake tensors return when they are given again what they were given before."""

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from memorymark.prediction.tracing.quick_results import QuickResults

aten = torch.ops.aten


class Counting(TorchDispatchMode):
    """Counts the operations that run."""

    ran = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ran += func is not torch.ops.prim.device.default
        return func(*args, **(kwargs or {}))


class Looking(TorchDispatchMode):
    """Looks operations up."""

    def __init__(self, fake_mode):
        super().__init__()
        self._results = QuickResults(fake_mode)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self._results.of(func, args, kwargs or {})


@pytest.fixture
def counting():
    fake_mode = FakeTensorMode()
    with fake_mode, Counting() as counts, Looking(fake_mode):
        yield counts


def storage(tensor):
    return tensor.untyped_storage()._cdata


def facts(tensor):
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device, tensor.requires_grad


OPERATIONS = {
    "elementwise": lambda t: t + 1,
    "another type": lambda t: t.to(torch.bfloat16),
    "a product": lambda t: t @ t.t(),
    "a part": lambda t: t[1:, 2:],
    "turned": lambda t: t.t(),
    "a copy of a part": lambda t: t[:, 1:].contiguous(),
    "another shape": lambda t: torch.ops.aten._unsafe_view.default(t, [24]),
    "several": lambda t: t.sort(dim=1)[1],
    "pieces": lambda t: t.split(2)[1],
    "a list": lambda t: torch._foreach_add([t, t.t()], 1)[1],
    "a new tensor": lambda t: torch.zeros(3, dtype=torch.int32),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_result_that_was_looked_up_is_like_the_first(counting, operation):
    given, again = torch.rand(4, 6), torch.rand(4, 6)
    first, ran = operation(given), counting.ran
    second = operation(again)

    assert counting.ran == ran
    assert facts(second) == facts(first)
    assert second.untyped_storage().nbytes() == first.untyped_storage().nbytes()
    assert (storage(second) == storage(again)) == (storage(first) == storage(given))
    assert storage(second) not in (storage(first), storage(given))


def test_what_an_operation_changes_is_what_it_was_given(counting):
    one, other = torch.rand(4), torch.rand(4)
    assert one.add_(1) is one
    assert other.add_(1) is other


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda t: t + 1, lambda t: t + 1.5),
        (lambda t: t + t, lambda t: t + t.to(torch.float64)),
        (lambda t: t.sum(0), lambda t: t.sum(1)),
        (lambda t: t.clone(), lambda t: t.t().clone()),
    ],
    ids=["another number", "another type", "another dimension", "another layout"],
)
def test_what_is_given_makes_the_difference(counting, first, second):
    given = torch.ones(4, 6, dtype=torch.int64)
    after_first = facts(first(given))
    assert facts(second(given)) != after_first
    assert facts(first(given)) == after_first


def test_a_size_that_only_values_tell_is_never_looked_up(counting):
    given = torch.rand(4)
    for _ in range(2):
        with pytest.raises(DynamicOutputShapeException):
            given.nonzero()


@pytest.fixture
def fake_mode():
    return FakeTensorMode()


@pytest.fixture
def results(fake_mode):
    return QuickResults(fake_mode)


def made(fake_mode, *shape, **how):
    with fake_mode:
        return torch.empty(*shape, **how)


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


def test_numbers_of_another_type_are_not_the_same(fake_mode, results):
    whole = made(fake_mode, 4, dtype=torch.int64)

    found = [results.of(aten.add.Scalar, (whole, number), {}).dtype for number in (1, 1.0, True)]

    assert found == [torch.int64, torch.float32, torch.int64]


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
