import pytest

from memorymark.devices.allocations import Trace
from memorymark.prediction.memory.growing_step import RecordedStep, growing_step
from memorymark.units import MIB


def step(batch_size, *actions, **facts):
    """Requests are ``(name, size)``, a name alone frees; whatever is left is freed at the end."""
    held, events = {}, []
    for action in actions:
        if isinstance(action, tuple):
            held[action[0]] = action[1]
            events.append(action)
        else:
            events.append((action, -held.pop(action)))
    events += [(name, -size) for name, size in held.items()]
    return RecordedStep(batch_size, Trace(events=events), **facts)


def requests(smaller, larger, batch_size):
    actions = growing_step(smaller, larger)
    assert actions is not None
    return [action.bytes_at(batch_size) for action in actions if not isinstance(action, int)]


def test_what_grows_grows_on_and_what_does_not_stays():
    smaller = step(2, ("weights", 50 * MIB), ("activation", 8 * MIB), ("with a base", 7 * MIB))
    larger = step(4, ("weights", 50 * MIB), ("activation", 16 * MIB), ("with a base", 9 * MIB))
    assert requests(smaller, larger, 10) == [50 * MIB, 40 * MIB, 15 * MIB]


def test_blocks_are_freed_where_the_larger_step_frees_them():
    smaller = step(2, ("a", 20 * MIB), ("b", 20 * MIB), "a", ("c", 20 * MIB))
    larger = step(4, ("a", 40 * MIB), ("b", 40 * MIB), "a", ("c", 40 * MIB))
    actions = growing_step(smaller, larger)
    assert [action for action in actions if isinstance(action, int)] == [0, 1, 2]


LASTING = [(f"x{number}", 40 * MIB) for number in range(20)]
GROWN = [(name, 2 * size) for name, size in LASTING]


def test_what_only_the_larger_step_asks_for_grows_in_proportion():
    sorting = [("indices", 3 * MIB), ("order", 3 * MIB), ("parts", MIB), "indices", "parts", "order"]
    smaller, larger = step(2, *LASTING), step(4, *GROWN[:10], *sorting, *GROWN[10:])
    sizes = requests(smaller, larger, 8)
    assert sizes[10:13] == [6 * MIB, 6 * MIB, 2 * MIB]
    assert sizes[:10] + sizes[13:] == [160 * MIB] * 20


def test_what_only_the_smaller_step_asks_for_is_left_out():
    smaller = step(2, *LASTING[:10], ("extra", 300 * MIB), ("more", 1), "extra", "more", *LASTING[10:])
    assert requests(smaller, step(4, *GROWN), 8) == [160 * MIB] * 20


@pytest.mark.parametrize("size", [100 * MIB, 900 * MIB])
def test_steps_of_different_shapes_are_refused(size):
    odd = [("odd", size), ("too", size), "odd", "too"]
    assert growing_step(step(2, *LASTING), step(4, *GROWN[:10], *odd, *GROWN[10:])) is None


def test_a_smaller_step_cannot_stand_for_a_larger_one():
    assert growing_step(step(4, *LASTING), step(4, *LASTING)) is None
    assert growing_step(step(8, *LASTING), step(4, *LASTING)) is None


@pytest.mark.parametrize("convolves", [True, False])
def test_scratch_space_is_brief_and_convolutions_can_do_without(convolves):
    smaller = step(2, *LASTING, ("scratch", 6 * MIB), "scratch", convolves=convolves)
    larger = step(4, *GROWN, ("scratch", 10 * MIB), "scratch", convolves=convolves)
    scratch = [action for action in growing_step(smaller, larger) if not isinstance(action, int) and action.brief]
    assert [(each.bytes_at(8), each.optional) for each in scratch] == [(18 * MIB, convolves)]


def test_scratch_space_of_another_algorithm_grows_in_proportion():
    smaller = step(2, *LASTING, ("a", 6 * MIB), "a", ("b", 6 * MIB), "b")
    larger = step(4, *GROWN, ("a", 10 * MIB), "a")
    assert requests(smaller, larger, 8)[20:] == [20 * MIB]


@pytest.mark.parametrize(("limit_mib", "narrow_mib"), [(150, 150), (90, 100), (None, 1000)])
def test_partial_sums_grow_up_to_the_limit_of_the_gpu(limit_mib, narrow_mib):
    def sums(name, size):
        return [(name, size), (f"{name}'s lock", 96), f"{name}'s lock", name]

    limit = {"scratch_limit_bytes": limit_mib and limit_mib * MIB}
    smaller = step(2, *LASTING[:10], *sums("wide", 60 * MIB), *LASTING[10:], *sums("narrow", 20 * MIB))
    larger = step(10, *GROWN[:10], *sums("wide", 60 * MIB), *GROWN[10:], *sums("narrow", 100 * MIB), **limit)
    sizes = requests(smaller, larger, 100)
    assert (sizes[10], sizes[21]) == (60 * MIB, narrow_mib * MIB)


@pytest.mark.parametrize("inner_mib", [1, 4, 6])
def test_a_large_block_inside_another_is_no_lock(inner_mib):
    nested = [("outer", 4 * MIB), ("inner", inner_mib * MIB), "inner", "outer"]
    sizes = requests(step(2, *LASTING), step(4, *GROWN, *nested), 8)
    assert sizes[20:] == [8 * MIB, 2 * inner_mib * MIB]
