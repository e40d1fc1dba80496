import pytest

from memorymark.units import GIB, KIB, MIB, format_bytes, gib


def test_a_gib_is_two_to_the_thirtieth():
    assert gib(3 * 2**29) == 1.5


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (21.7 * GIB, "21.70 GiB"),
        (1500 * GIB, "1,500.00 GiB"),
        (0.1 * GIB, "0.10 GiB"),
        (102 * MIB, "102.0 MiB"),
        (MIB, "1.0 MiB"),
        (0.1 * MIB, "0.1 MiB"),
        (10 * KIB, "10.0 KiB"),
        (100, "0.1 KiB"),
        (0, "0.0 KiB"),
        (-2 * GIB, "-2.00 GiB"),
    ],
)
def test_sizes_are_written_in_the_unit_in_which_they_can_be_read(size, text):
    assert format_bytes(size) == text
