from hypothesis import given
from hypothesis import strategies as st

from memorymark.prediction.memory.address_space import CHUNK_BYTES, AddressSpace
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
    space.found(10 * CHUNK_BYTES, 20 * MIB)

    assert taken(space, 12, 32) == [10 * CHUNK_BYTES + 20 * MIB, 9 * CHUNK_BYTES]


def test_where_nothing_is_left_below_segments_go_above():
    space = AddressSpace()
    space.found(0, 32 * MIB)

    assert taken(space, 64, 64) == [CHUNK_BYTES, 3 * CHUNK_BYTES]


def first_room(segments, size, top):
    """Where a segment goes, by looking at every place: the lowest within a chunk in use, else the highest in none.

    ``top`` is where the highest chunk ended that was ever in use.
    """
    used = {chunk for address, end in segments for chunk in range(address // CHUNK_BYTES, -(-end // CHUNK_BYTES))}
    low = min(used) * CHUNK_BYTES

    def is_free(place, length):
        return all(end <= place or place + length <= address for address, end in segments)

    for place in range(low, (max(used) + 1) * CHUNK_BYTES, 2 * MIB):
        chunk = place // CHUNK_BYTES
        if is_free(place, size) and chunk in used and place + size <= (chunk + 1) * CHUNK_BYTES:
            return place
    length = -(-size // CHUNK_BYTES) * CHUNK_BYTES
    places = range(top - length, low, -CHUNK_BYTES)
    return next((place for place in places if is_free_of(used, place, length)), low - length)


def is_free_of(used, place, length):
    return used.isdisjoint(range(place // CHUNK_BYTES, (place + length) // CHUNK_BYTES))


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=4),
    st.lists(st.one_of(st.integers(1, 60), st.integers(-20, -1)), max_size=40),
)
def test_every_segment_goes_to_the_first_room_and_none_overlap(before, actions):
    space, segments, address = AddressSpace(), [], 1000 * CHUNK_BYTES
    for gap, size in before:
        address += gap * 2 * MIB
        space.found(address, size * 2 * MIB)
        segments.append((address, address + size * 2 * MIB))
        address = segments[-1][1]
    top = address
    for action in actions:
        if action > 0:
            size = action * 2 * MIB
            top = -(-top // CHUNK_BYTES) * CHUNK_BYTES
            expected = first_room(segments, size, top) if segments else None
            place = space.take(size)
            assert expected in (None, place)
            top = max(top, place + size)
            assert all(end <= place or place + size <= start for start, end in segments)
            segments.append((place, place + size))
        elif segments:
            space.give_back(segments.pop(action % len(segments))[0])
