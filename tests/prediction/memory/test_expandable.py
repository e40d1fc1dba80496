"""Expandable segments by the rules of torch's source, worked out by hand: no GPU has confirmed them yet."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorymark.devices.segments import Segment
from memorymark.prediction.memory.allocator import CachingAllocator, OutOfMemory
from memorymark.prediction.memory.allocator_for import allocator_for
from memorymark.prediction.memory.expandable import LARGE_PAGE_BYTES, SMALL_PAGE_BYTES, ExpandableAllocator
from memorymark.units import MIB
from support.histories import expandable_histories, histories, replay


def allocated(*sizes_mib, **limits):
    """An allocator that was asked for these sizes, and the blocks that it gave."""
    allocator = ExpandableAllocator(**limits)
    return allocator, [allocator.allocate(size * MIB) for size in sizes_mib]


def stretches(allocator):
    """The pages in MiB from where the first begin: where a stretch begins, and its blocks, those in use negative."""
    segments = [segment for segment in allocator.layout() if segment.blocks]
    start = segments[0].address
    return [
        ((segment.address - start) // MIB, [(-size if in_use else size) // MIB for size, in_use in segment.blocks])
        for segment in segments
    ]


def pages_in_use(blocks):
    """How many bytes the pages have that hold a part of these blocks; the ranges begin at multiples of both sizes."""
    pages = set()
    for block in blocks:
        page_bytes = SMALL_PAGE_BYTES if block.small else LARGE_PAGE_BYTES
        first, last = block.address // page_bytes, (block.address + block.size - 1) // page_bytes
        pages |= {(page * page_bytes, page_bytes) for page in range(first, last + 1)}
    return sum(page_bytes for _, page_bytes in pages)


def total_of(blocks):
    return sum(block.size for block in blocks)


def peaks_of(history):
    """What was held at most before each mark, since the peaks were reset; requests are rounded up to 512 bytes."""
    sizes, held, peak = [], 0, 0
    for action in history.actions:
        if isinstance(action, int):
            if action > 0:
                sizes.append(-(-action // 512) * 512)
            held += sizes[-1] if action > 0 else -sizes[-1 - action]
            peak = max(peak, held)
        elif action[0] == "reset":
            peak = held
        elif action[0] == "mark":
            yield peak


@pytest.mark.parametrize(
    ("requested", "block_bytes", "reserved"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 20 * MIB),  # by default a segment of its own
        (11 * MIB, 11 * MIB, 20 * MIB),  # by default 12 MiB, because so little is not split off
        (20 * MIB, 20 * MIB, 20 * MIB),
        (20 * MIB + 1, 20 * MIB + 512, 40 * MIB),
        (100 * MIB, 100 * MIB, 100 * MIB),
    ],
)
def test_first_request_is_rounded_to_512_bytes_and_reserves_whole_pages(requested, block_bytes, reserved):
    allocator = ExpandableAllocator()
    block = allocator.allocate(requested)
    assert (block.size, allocator.allocated_bytes, allocator.reserved_bytes) == (block_bytes, block_bytes, reserved)


def test_small_and_large_requests_have_pages_of_their_own():
    allocator, _ = allocated(1, 1, 1, 2)
    assert allocator.reserved_bytes == 2 * SMALL_PAGE_BYTES + LARGE_PAGE_BYTES


def test_requests_lie_one_after_the_other_and_share_pages():
    allocator, _ = allocated(15, 15, 15)
    assert stretches(allocator) == [(0, [-15, -15, -15, 15])]


def test_new_pages_join_the_free_rest_of_the_last_one():
    allocator, _ = allocated(15)
    allocator.allocate(22 * MIB)  # 5 MiB are left, so a page is enough
    assert stretches(allocator) == [(0, [-15, -22, 3])]


def test_a_hole_is_taken_before_the_end_grows():
    allocator, (_, hole, _) = allocated(20, 30, 20)
    allocator.free(hole)
    allocator.allocate(25 * MIB)
    assert stretches(allocator) == [(0, [-20, -25, 5, -20, 10])]


def test_what_can_grow_is_left_alone_even_if_it_fits_better():
    allocator, (hole, _) = allocated(18, 12)
    allocator.free(hole)
    assert stretches(allocator) == [(0, [18, -12, 10])]
    allocator.allocate(8 * MIB)  # the 10 MiB at the end fit better, but count as all that they can grow to
    assert stretches(allocator) == [(0, [-8, 10, -12, 10])]


def test_the_best_of_several_holes_is_taken_and_split_to_the_byte():
    allocator, blocks = allocated(30, 10, 12, 10, 20)
    allocator.free(blocks[0])
    allocator.free(blocks[2])
    allocator.allocate(12 * MIB - 512)
    assert stretches(allocator) == [(0, [30, -10, -12, 0, -10, -20, 18])]
    assert allocator.allocated_bytes == 52 * MIB - 512


def test_emptying_the_cache_gives_back_the_pages_that_hold_nothing_and_no_others():
    allocator, (first, _) = allocated(30, 30)
    allocator.free(first)
    allocator.empty_cache()
    assert (allocator.reserved_bytes, allocator.peak_reserved_bytes) == (40 * MIB, 60 * MIB)
    assert stretches(allocator) == [(0, [10, -30])]  # the second page is half in use


def test_pages_in_the_middle_are_given_back_and_come_again_where_they_were():
    allocator, (_, middle, _) = allocated(30, 60, 30)
    allocator.free(middle)
    allocator.empty_cache()
    assert stretches(allocator) == [(0, [-30, 10]), (80, [10, -30])]
    allocator.allocate(45 * MIB)  # 10 MiB before the gap are free: it takes two pages, though 10 MiB follow it
    assert stretches(allocator) == [(0, [-30, -45, 15, -30])]
    assert allocator.reserved_bytes == 120 * MIB


def test_a_gap_too_small_for_a_request_is_passed_over():
    allocator, (first, _) = allocated(30, 30)
    allocator.free(first)
    allocator.empty_cache()
    allocator.allocate(35 * MIB)  # below the second block there are addresses for 30 MiB
    assert allocator.reserved_bytes == 80 * MIB
    assert stretches(allocator) == [(0, [10, -30, -35, 5])]
    allocator.allocate(25 * MIB)
    assert stretches(allocator) == [(0, [-25, 5, -30, -35, 5])]


def test_a_request_that_needs_two_gaps_fills_both():
    allocator, blocks = allocated(20, 20, 5, 10, 5, 20, 20)
    for block in (blocks[0], blocks[1], blocks[5], blocks[6]):
        allocator.free(block)
    allocator.empty_cache()
    assert stretches(allocator) == [(0, [-5, -10, -5])]
    for block in (blocks[2], blocks[4], blocks[3]):
        allocator.free(block)
    allocator.allocate(90 * MIB)  # two pages before the one that is there, and two after it
    assert stretches(allocator) == [(0, [-90, 10])]


def test_pages_are_given_back_before_out_of_memory():
    allocator, blocks = allocated(*[20] * 4, capacity_bytes=100 * MIB)
    allocator.free(blocks[0])
    allocator.free(blocks[2])
    allocator.allocate(40 * MIB)  # neither hole is large enough for it, but their pages serve at the end
    assert (allocator.reserved_bytes, allocator.retries) == (80 * MIB, 1)
    assert stretches(allocator) == [(0, [-20]), (40, [-20, -40])]


def test_the_default_allocator_runs_out_where_a_hole_can_be_moved():
    limits = {"capacity_bytes": 100 * MIB}
    for allocator, runs_out in ((CachingAllocator(**limits), True), (ExpandableAllocator(**limits), False)):
        blocks = [allocator.allocate(size * MIB) for size in (40, 40, 20)]
        allocator.free(blocks[0])
        blocks.append(allocator.allocate(5 * MIB))
        allocator.free(blocks[2])
        if runs_out:  # 35 MiB are held together with the 5
            with pytest.raises(OutOfMemory):
                allocator.allocate(40 * MIB)
        else:
            allocator.allocate(40 * MIB)
            assert (allocator.reserved_bytes, allocator.retries) == (100 * MIB, 1)


def test_out_of_memory_says_what_was_asked_for_and_what_is_left():
    allocator, _ = allocated(60, capacity_bytes=90 * MIB)
    with pytest.raises(OutOfMemory) as error:
        allocator.allocate(25 * MIB)
    assert (error.value.requested_bytes, error.value.free_bytes) == (40 * MIB, 30 * MIB)
    assert (allocator.reserved_bytes, allocator.retries) == (60 * MIB, 1)


def test_pages_that_were_added_before_there_were_no_more_count_for_the_peak_and_are_given_back():
    allocator, blocks = allocated(40, 20, 40, capacity_bytes=100 * MIB)
    allocator.free(blocks[0])
    allocator.free(blocks[2])
    allocator.empty_cache()
    allocator.free(blocks[1])
    allocator.reset_peaks()
    with pytest.raises(OutOfMemory):
        allocator.allocate(120 * MIB)  # two pages below the one that is there, then too many above it
    assert (allocator.peak_reserved_bytes, allocator.reserved_bytes) == (60 * MIB, 0)


def test_under_torch_s_own_cap_the_last_page_may_reach_beyond_it():
    capped, _ = allocated(80, capacity_bytes=97 * MIB, capped=True)
    capped.allocate(15 * MIB)  # by default a segment of 16 MiB
    assert (capped.reserved_bytes, capped.retries) == (100 * MIB, 0)
    of_the_driver, _ = allocated(80, capacity_bytes=97 * MIB)
    with pytest.raises(OutOfMemory):
        of_the_driver.allocate(15 * MIB)


def test_under_torch_s_own_cap_a_request_counts_as_by_default_even_if_pages_are_partly_free():
    of_the_driver, _ = allocated(65, capacity_bytes=100 * MIB)
    of_the_driver.allocate(22 * MIB)
    assert of_the_driver.reserved_bytes == 100 * MIB
    capped, _ = allocated(65, capacity_bytes=100 * MIB, capped=True)
    with pytest.raises(OutOfMemory) as error:
        capped.allocate(22 * MIB)
    assert (error.value.requested_bytes, error.value.free_bytes) == (22 * MIB, 20 * MIB)
    assert capped.retries == 1


def test_a_second_range_is_begun_where_the_first_has_no_addresses_left():
    allocator, blocks = allocated(*[20] * 4, capacity_bytes=80 * MIB)  # addresses for 100 MiB
    for block in (blocks[0], blocks[2]):
        allocator.free(block)
    allocator.allocate(40 * MIB)
    assert (allocator.reserved_bytes, allocator.retries) == (80 * MIB, 1)
    assert len([segment for segment in allocator.layout() if segment.blocks]) == 3


@pytest.mark.parametrize("freed", [0, 1, 2])
def test_a_layout_goes_into_another_allocator(freed):
    allocator, blocks = allocated(30, 60, 30, capacity_bytes=200 * MIB)
    allocator.allocate(1000)
    allocator.free(blocks[freed])
    allocator.empty_cache()
    other = ExpandableAllocator(200 * MIB)
    for segment in allocator.layout():
        other.add_segment(segment)
    assert other.layout() == allocator.layout()
    assert (other.reserved_bytes, other.peak_reserved_bytes) == (allocator.reserved_bytes, allocator.reserved_bytes)
    for one in (allocator, other):
        one.allocate(45 * MIB)
    assert other.layout() == allocator.layout()


def test_pages_are_counted_from_where_the_driver_put_a_range():
    allocator = ExpandableAllocator()
    address = 0x7F1230200000  # a multiple of 2 MiB, not of 20
    allocator.add_segment(Segment(address, small=False, blocks=((30 * MIB, False), (10 * MIB, True))))
    allocator.empty_cache()
    assert allocator.layout() == [
        Segment(address, small=False, blocks=()),  # where the range begins
        Segment(address + 20 * MIB, small=False, blocks=((10 * MIB, False), (10 * MIB, True))),
    ]


def test_the_kind_decides_between_the_models():
    assert type(allocator_for("default", MIB, capped=True)) is CachingAllocator
    assert type(allocator_for("expandable", MIB, capped=True)) is ExpandableAllocator


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("history", histories(), ids=str)
def test_the_requests_of_a_gpu_in_its_default_way_need_less_with_expandable_segments(history, capped):
    peaks = iter(peaks_of(history))

    def compare(allocator, recorded, blocks):
        assert allocator.allocated_bytes == total_of(blocks.values()) <= recorded["allocated"]
        # By default up to 1 MiB of a block is handed out with it that was not asked for.
        assert allocator.peak_allocated_bytes == next(peaks) <= recorded["peak_allocated"]
        assert allocator.peak_allocated_bytes <= allocator.peak_reserved_bytes <= recorded["peak_reserved"]
        assert allocator.retries == 0 <= recorded["retries"]

    replay(history, compare, ExpandableAllocator(history.capacity_bytes, capped=capped))


@pytest.mark.parametrize("history", expandable_histories(), ids=str)
def test_recorded_history_gives_the_recorded_counters_to_the_byte(history):
    def compare(allocator, recorded, _):
        assert allocator.peak_allocated_bytes == recorded["peak_allocated"]
        assert allocator.peak_reserved_bytes == recorded["peak_reserved"]
        assert allocator.allocated_bytes == recorded["allocated"]
        assert allocator.reserved_bytes == recorded["reserved"]
        assert allocator.retries == recorded["retries"]

    capped = history.capacity_bytes is not None
    replay(history, compare, ExpandableAllocator(history.capacity_bytes, capped=capped))


REQUESTS = st.one_of(st.integers(1, 2 * MIB), st.integers(1, 64 * MIB))


@settings(deadline=None)
@given(st.lists(st.tuples(REQUESTS, st.integers(0, 100)), max_size=60), st.one_of(st.none(), st.integers(1, 400)))
def test_counters_add_up_whatever_is_asked_for(requests, capacity_mib):
    allocator = ExpandableAllocator(None if capacity_mib is None else capacity_mib * MIB)
    alive = []
    for size, which in requests:
        try:
            alive.append(allocator.allocate(size))
        except OutOfMemory as error:
            assert error.requested_bytes > error.free_bytes >= 0
            allocator.empty_cache()
        if alive and which % 3 == 0:
            allocator.free(alive.pop(which % len(alive)))
        assert allocator.allocated_bytes == total_of(alive)
        assert allocator.allocated_bytes <= pages_in_use(alive) <= allocator.reserved_bytes
        assert capacity_mib is None or allocator.reserved_bytes <= capacity_mib * MIB
        assert allocator.reserved_bytes % SMALL_PAGE_BYTES == 0
    spans = sorted((block.address, block.address + block.size) for block in alive)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    allocator.empty_cache()
    assert allocator.reserved_bytes == pages_in_use(alive)
    for block in alive:
        allocator.free(block)
    allocator.empty_cache()
    assert (allocator.allocated_bytes, allocator.reserved_bytes, allocator.layout()) == (0, 0, [])


@settings(deadline=None)
@given(st.lists(st.tuples(REQUESTS, st.integers(0, 100)), max_size=60), st.integers(1, 400))
def test_under_torch_s_own_cap_less_than_a_page_more_is_reserved(requests, cap_mib):
    allocator, alive = ExpandableAllocator(cap_mib * MIB, capped=True), []
    for size, which in requests:
        try:
            alive.append(allocator.allocate(size))
        except OutOfMemory:
            allocator.empty_cache()
            assert allocator.reserved_bytes == pages_in_use(alive)
        if alive and which % 3 == 0:
            allocator.free(alive.pop(which % len(alive)))
        assert allocator.reserved_bytes < cap_mib * MIB + LARGE_PAGE_BYTES


@settings(deadline=None)
@given(st.lists(st.one_of(REQUESTS, st.just(None)), max_size=60))
def test_what_is_freed_in_the_reverse_order_leaves_no_holes_and_needs_a_page_more_at_most(actions):
    """As a step does, nearly: what the forward pass keeps, the backward pass frees from the last to the first."""
    allocator, default = ExpandableAllocator(), CachingAllocator()
    alive, alive_by_default = [], []
    most = {True: 0, False: 0}
    for size in actions:
        if size is not None:
            alive.append(allocator.allocate(size))
            alive_by_default.append(default.allocate(size))
        elif alive:
            allocator.free(alive.pop())
            default.free(alive_by_default.pop())
        for small in most:
            most[small] = max(most[small], total_of(block for block in alive if block.small == small))
    pages = (-(-most[True] // SMALL_PAGE_BYTES), -(-most[False] // LARGE_PAGE_BYTES))
    assert allocator.peak_reserved_bytes == pages[0] * SMALL_PAGE_BYTES + pages[1] * LARGE_PAGE_BYTES
    assert allocator.peak_allocated_bytes <= default.peak_allocated_bytes
    assert allocator.peak_reserved_bytes < default.peak_reserved_bytes + LARGE_PAGE_BYTES
    fitting = ExpandableAllocator(default.peak_reserved_bytes + LARGE_PAGE_BYTES)
    alive = []
    for size in actions:
        if size is not None:
            alive.append(fitting.allocate(size))
        elif alive:
            fitting.free(alive.pop())
    assert fitting.retries == 0
