from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memorymark.prediction.address_space import CHUNK_BYTES, AddressSpace
from memorymark.units import MIB


def taken(space, *sizes_mib):
    return [space.take(size * MIB) for size in sizes_mib]


def test_each_large_segment_lies_below_the_one_before():
    first, second, third = taken(AddressSpace(), 32, 90, 400)

    assert second == first - 3 * CHUNK_BYTES
    assert third == second - 13 * CHUNK_BYTES


def test_what_is_left_of_a_chunk_takes_smaller_segments_the_lowest_first():
    space = AddressSpace()
    first, second = taken(space, 20, 20)

    assert taken(space, 12) == [second + 20 * MIB]
    assert taken(space, 2, 8, 4) == [first + 20 * MIB, first + 22 * MIB, second - CHUNK_BYTES]


def test_chunks_that_are_free_again_are_taken_from_the_top_if_they_are_long_enough():
    space = AddressSpace()
    first, second, third, fourth = taken(space, 64, 32, 64, 32)
    space.give_back(second)
    space.give_back(third)

    assert taken(space, 96) == [third]
    space.give_back(first)
    assert taken(space, 128, 64) == [fourth - 4 * CHUNK_BYTES, first]


def test_segments_that_were_found_are_built_around():
    space = AddressSpace()
    space.add(10 * CHUNK_BYTES, 20 * MIB)

    assert taken(space, 12, 32) == [10 * CHUNK_BYTES + 20 * MIB, 9 * CHUNK_BYTES]


def test_where_nothing_is_left_below_segments_go_above():
    space = AddressSpace()
    space.add(0, 32 * MIB)

    assert taken(space, 64, 64) == [CHUNK_BYTES, 3 * CHUNK_BYTES]


@given(st.lists(st.one_of(st.integers(1, 60).map(lambda size: 2 * size), st.integers(-20, -1)), max_size=60))
def test_segments_never_overlap(actions):
    space, alive = AddressSpace(), []
    for action in actions:
        if action > 0:
            alive.append((space.take(action * MIB), action * MIB))
        elif alive:
            space.give_back(alive.pop(action % len(alive))[0])
    alive.sort()
    for (address, size), (next_address, _) in pairwise(alive):
        assert address + size <= next_address
