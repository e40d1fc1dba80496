import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorymark.catalog import find_gpu
from memorymark.prediction.memory.allocator import CachingAllocator, OutOfMemory
from memorymark.prediction.memory.scratch import scratch_of
from memorymark.prediction.memory.scratch_space import NOTHING, Scratch
from memorymark.prediction.memory.simulate import Memory
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.question.recipe import Recipe
from memorymark.units import GIB, KIB, MIB
from support.operations import operation, program, tensor
from support.tiny import PARAMETERS, tiny

WORKSPACE_BYTES = 32 * MIB
SUM = "aten.sum.dim_IntList"


def no_scratch(growth, batch_size):
    return NOTHING


def makes(*storages, freed=(), name="aten.relu.default"):
    return operation(name, made=[(number, mib * MIB) for number, mib in storages], freed=freed)


STEP = program(
    ("forward", [makes((1, 4)), makes((2, 8)), makes((3, 2)), makes(freed=(3,))]),
    ("backward", [makes((4, 5)), makes((5, 6), freed=(2,)), makes(freed=(1, 4))]),
    ("optimizer", [makes((6, 2)), makes(freed=(5, 6))]),
)


def test_peaks_are_told_phase_by_phase():
    memory = Memory(None, WORKSPACE_BYTES)
    assert list(memory.run(STEP, 1, no_scratch)) == [
        ("forward", 14 * MIB),
        ("backward", 17 * MIB),
        ("optimizer", 8 * MIB),
    ]
    assert memory.allocator.peak_allocated_bytes == 17 * MIB


def test_peaks_count_what_is_held():
    memory = Memory(None, WORKSPACE_BYTES)
    memory.hold([(100, 6 * MIB), (101, 3 * MIB)])
    assert [peak for _, peak in memory.run(STEP, 1, no_scratch)] == [23 * MIB, 26 * MIB, 17 * MIB]


def test_a_step_gives_everything_back_at_its_end():
    memory = Memory(None, WORKSPACE_BYTES)
    memory.hold([(100, 6 * MIB)])
    for _ in range(3):
        list(memory.run(STEP, 1, no_scratch))
        assert memory.allocator.allocated_bytes == 6 * MIB
        assert set(memory.blocks) == {100}


def test_a_larger_batch_takes_more():
    growing = Program([Growth(makes((1, 4)), makes((1, 5)), 4), Growth(makes(), makes(), 4)], [("forward", 2)])
    for batch_size in (1, 4, 100):
        memory = Memory(None, WORKSPACE_BYTES)
        assert list(memory.run(growing, batch_size, no_scratch)) == [("forward", batch_size * MIB)]


def test_scratch_counts_at_the_peak_and_is_given_back():
    memory = Memory(None, WORKSPACE_BYTES)
    step = program(
        ("forward", [makes((1, 4)), makes((2, 8)), makes((3, 2)), makes(freed=(3,))]),
        ("backward", [makes((4, 5), name=SUM), makes((5, 6), freed=(2,)), makes(freed=(1, 4))]),
    )

    def scratch(growth, batch_size):
        return Scratch((16 * MIB, batch_size * MIB)) if growth.operation.name == SUM else NOTHING

    assert dict(memory.run(step, 12, scratch)) == {"forward": 14 * MIB, "backward": (12 + 5 + 16) * MIB}
    assert dict(memory.run(step, 64, scratch))["backward"] == (6 + 12 + 5 + 64) * MIB
    assert memory.allocator.allocated_bytes == 6 * MIB


def test_scratch_is_asked_for_once_for_operations_that_are_alike():
    def sums(rows, grown, number):
        return Growth(*(operation(SUM, [tensor(n, 8)], [tensor(8)], made=[(number, MIB)]) for n in (rows, grown)), 4)

    asked = []
    step = Program([sums(4, 5, 1), sums(4, 5, 2), sums(4, 4, 3), sums(8, 10, 4)], [("forward", 4)])
    list(Memory(None, WORKSPACE_BYTES).run(step, 6, lambda growth, _: asked.append(growth) or NOTHING))
    assert [growth.at(6).inputs[0].shape for growth in asked] == [(6, 8), (4, 8), (12, 8)]


class Requests(CachingAllocator):
    """Keeps what is asked for and given back, in MiB."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def allocate(self, requested_bytes, stream=0):
        self.seen.append(requested_bytes // MIB)
        return super().allocate(requested_bytes)

    def free(self, block):
        self.seen.append(-(block.size // MIB))
        super().free(block)


def requests_of(op, scratch):
    memory = Memory(None, WORKSPACE_BYTES)
    memory.allocator = Requests()
    list(memory.run(program(("forward", [op])), 1, lambda *_: scratch))
    return memory.allocator.seen


def test_copies_are_there_before_the_results_and_go_last():
    scratch = Scratch((16 * MIB,), copies=(20 * MIB, 30 * MIB))
    assert requests_of(makes((1, 12)), scratch) == [20, 30, 12, 16, -16, -20, -30]


def test_requests_are_given_back_in_the_order_that_is_written():
    scratch = Scratch(((16 * MIB, 20 * MIB, -1, 30 * MIB, -3, -2),))
    assert requests_of(makes((1, 12)), scratch) == [12, 16, 20, -16, 30, -30, -20]
    assert scratch.peak_bytes == 50 * MIB


def test_a_request_for_nothing_keeps_its_place():
    scratch = Scratch((0, (0, 16 * MIB, -1, -2)))
    assert requests_of(makes((1, 12)), scratch)[-4:] == [0, 16, 0, -16]
    assert scratch.peak_bytes == 16 * MIB


def test_each_result_may_be_followed_by_its_own_scratch():
    scratch = Scratch((16 * MIB, 20 * MIB), each_result=True)
    assert requests_of(makes((1, 12), (2, 3), (3, 2)), scratch) == [12, 16, -16, 3, 20, -20, 2]
    assert requests_of(makes((1, 12)), scratch) == [12, 16, -16, 20, -20]


def test_a_step_that_does_not_fit_runs_out_of_memory():
    fitting, full = Memory(40 * MIB, WORKSPACE_BYTES), Memory(22 * MIB, WORKSPACE_BYTES)
    list(fitting.run(STEP, 1, no_scratch))
    full.hold([(100, 12 * MIB)])
    with pytest.raises(OutOfMemory):
        list(full.run(STEP, 1, no_scratch))


def too_much(*, optional):
    scratch = Scratch((64 * MIB,), optional=optional)
    return lambda growth, _: scratch if growth.operation.made else NOTHING


def test_without_room_for_scratch_that_is_optional_a_step_goes_on():
    memory = Memory(40 * MIB, WORKSPACE_BYTES)
    step = program(("forward", [makes((1, 12)), makes(freed=(1,))]))
    assert list(memory.run(step, 1, too_much(optional=True))) == [("forward", 12 * MIB)]


def test_without_room_for_any_other_scratch_it_fails():
    memory = Memory(40 * MIB, WORKSPACE_BYTES)
    step = program(("forward", [makes((1, 12)), makes(freed=(1,))]))
    with pytest.raises(OutOfMemory):
        list(memory.run(step, 1, too_much(optional=False)))


@pytest.mark.parametrize("name", ["aten.convolution.default", "aten.convolution_backward.default"])
def test_a_convolution_without_room_for_its_result_fails(name):
    memory = Memory(40 * MIB, WORKSPACE_BYTES)
    with pytest.raises(OutOfMemory):
        list(memory.run(program(("forward", [makes((1, 64), name=name)])), 1, no_scratch))


@pytest.mark.parametrize("product", ["aten.mm.default", "aten.bmm.default", "aten.baddbmm.default"])
def test_matrix_products_take_a_workspace_for_forward_and_one_for_backward_and_keep_them(product):
    memory = Memory(None, WORKSPACE_BYTES)
    multiply = makes(name=product)
    step = program(("forward", [multiply] * 3), ("backward", [multiply] * 3), ("optimizer", [multiply]))
    first = list(memory.run(step, 1, no_scratch))
    assert [peak for _, peak in first] == [WORKSPACE_BYTES, 2 * WORKSPACE_BYTES, 2 * WORKSPACE_BYTES]
    assert [peak for _, peak in memory.run(step, 1, no_scratch)] == [2 * WORKSPACE_BYTES] * 3
    assert memory.allocator.allocated_bytes == 2 * WORKSPACE_BYTES


def test_a_product_that_adds_a_bias_keeps_another_workspace_for_each_thread():
    memory = Memory(None, WORKSPACE_BYTES)
    biased = makes(name="aten.addmm.default")
    list(memory.run(program(("forward", [biased] * 2)), 1, no_scratch))
    assert memory.allocator.allocated_bytes == WORKSPACE_BYTES + MIB
    list(memory.run(program(("forward", [makes()]), ("backward", [biased])), 1, no_scratch))
    assert memory.allocator.allocated_bytes == 2 * (WORKSPACE_BYTES + MIB)


def test_without_matrix_products_there_is_no_workspace():
    memory = Memory(None, WORKSPACE_BYTES)
    list(memory.run(program(("forward", [makes()]), ("backward", [makes()])), 1, no_scratch))
    assert memory.allocator.allocated_bytes == 0


def test_what_autograd_multiplies_in_a_second_pass_takes_no_third_workspace():
    memory = Memory(None, WORKSPACE_BYTES)
    multiply = makes(name="aten.mm.default")
    list(memory.run(program(*[("forward", [multiply]), ("backward", [multiply])] * 2), 1, no_scratch))
    assert memory.allocator.allocated_bytes == 2 * WORKSPACE_BYTES


@pytest.fixture(scope="module")
def step():
    return trace_training(tiny(), Recipe(), (9, 0))


def with_scratch(growth, batch_size):
    return scratch_of(growth.at(batch_size), find_gpu("h200"))


def rested(step, allocator="default"):
    """Where a search begins: after a small first step."""
    memory = Memory(GIB, WORKSPACE_BYTES, allocator=allocator)
    memory.hold(step.weights.items())
    list(memory.run(step.first, 8, with_scratch))
    memory.allocator.empty_cache()
    return memory


@pytest.mark.parametrize("allocator", ["default", "expandable"])
@pytest.mark.parametrize("batch_size", [8, 1000, 100_000, 500_000])
def test_starting_from_what_was_found_is_the_same_as_running_on(step, batch_size, allocator):
    before = rested(step, allocator)
    found = Memory(GIB, WORKSPACE_BYTES, allocator=allocator)
    found.found(before.allocator.layout(), set(before.blocks))
    for _ in range(2):
        assert list(found.run(step.later, batch_size, with_scratch)) == list(
            before.run(step.later, batch_size, with_scratch)
        )
        assert found.allocator.layout() == before.allocator.layout()
        assert found.allocator.allocated_bytes == before.allocator.allocated_bytes
        assert found.allocator.peak_reserved_bytes == before.allocator.peak_reserved_bytes


def test_after_a_step_only_weights_state_and_workspaces_stay(step):
    memory = rested(step)
    numbers = {number for number in memory.blocks if number >= 0}
    assert numbers == set(step.weights) | set(step.optimizer_state)
    tensors = 3 * PARAMETERS * 4
    lasting = 2 * WORKSPACE_BYTES + MIB + tensors  # and one for the layers that add a bias
    assert lasting < memory.allocator.allocated_bytes < lasting + 16 * KIB
    resting = memory.allocator.allocated_bytes
    for _ in range(2):
        list(memory.run(step.later, 5000, with_scratch))
        assert memory.allocator.allocated_bytes == resting


def test_a_batch_that_is_too_large_fails_whether_found_or_run_on(step):
    before = rested(step)
    found = Memory(GIB, WORKSPACE_BYTES)
    found.found(before.allocator.layout(), set(before.blocks))
    for memory in (before, found):
        with pytest.raises(OutOfMemory):
            list(memory.run(step.later, 5_000_000, with_scratch))


@settings(deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 64 * MIB), st.integers(0, 100)), max_size=60),
    following=st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=5),
)
def test_a_layout_put_into_another_allocator_goes_on_as_the_first(requests, following):
    first, alive = CachingAllocator(), []
    for size, which in requests:
        alive.append(first.allocate(size))
        if which % 2:
            first.free(alive.pop(which % len(alive)))
    second = CachingAllocator()
    for segment in first.layout():
        second.add_segment(segment)
    assert second.layout() == first.layout()
    assert (second.allocated_bytes, second.reserved_bytes) == (first.allocated_bytes, first.reserved_bytes)
    assert second.peak_allocated_bytes == second.allocated_bytes
    for size in following:
        here, there = first.allocate(size), second.allocate(size)
        assert (here.address, here.size) == (there.address, there.size)


def test_a_layout_lists_every_block_in_its_place():
    allocator = CachingAllocator()
    blocks = [allocator.allocate(4 * MIB) for _ in range(5)]
    allocator.allocate(512)
    allocator.free(blocks[1])
    large, small = sorted(allocator.layout(), key=lambda segment: segment.small)
    assert large.blocks == ((4 * MIB, True), (4 * MIB, False), *[(4 * MIB, True)] * 3)
    assert small.blocks == ((512, True), (2 * MIB - 512, False))


def recurrent(dropout):
    """A recurrent layer in training whose reserve is the last of its results."""
    arguments = [4, 2, 512, 0, 2, False, dropout, True, False]
    made = [(1, 2 * MIB), (2, 4 * MIB)]
    return operation("aten._cudnn_rnn.default", [tensor(64, 8, 512)], arguments=arguments, made=made)


def test_a_recurrent_layer_asks_for_its_workspace_before_its_last_result_and_holds_both():
    memory = Memory(None, WORKSPACE_BYTES, 6 * MIB)
    step = program(("forward", [recurrent(0.0)]), ("backward", [makes(freed=(1, 2))]))
    assert dict(memory.run(step, 1, lambda growth, _: Scratch((16 * MIB,)) if growth.operation.made else NOTHING)) == {
        "forward": 22 * MIB,
        "backward": 6 * MIB,
    }
    assert memory.allocator.allocated_bytes == 0


def test_the_random_states_of_dropout_are_made_once_and_kept():
    memory = Memory(None, WORKSPACE_BYTES, 6 * MIB)
    step = program(("forward", [recurrent(0.1)] * 2), ("backward", [makes(freed=(1, 2))]))
    for _ in range(2):
        list(memory.run(step, 1, no_scratch))
        assert memory.allocator.allocated_bytes == 6 * MIB
