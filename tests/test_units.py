import pytest

from memorymark.units import GIB, KIB, MIB, format_bytes, format_count, format_rate, format_usd, gib


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


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1_250_000, "1.25 M"),
        (13_549_314, "13.5 M"),
        (109_483_778, "109 M"),
        (999_400_000, "999 M"),
        (999_600_000, "1.00 B"),
        (8_030_261_248, "8.03 B"),
        (70_553_706_496, "70.6 B"),
    ],
)
def test_large_numbers_have_three_digits(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(0, "0.00"), (0.00123, "0.00123"), (0.0996, "0.0996"), (0.5, "0.500"), (1.5, "1.50"), (1234.5, "1,234.50")],
)
def test_dollars_for_people(usd, shown):
    assert format_usd(usd) == shown


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.0, "0"),
        (0.04123, "0.0412"),
        (0.4, "0.400"),
        (0.9996, "1.00"),
        (8.299, "8.30"),
        (9.996, "10.0"),
        (85.31, "85.3"),
        (99.96, "100"),
        (852.4, "852"),
        (12345.6, "12,346"),
    ],
)
def test_rates_have_three_digits_or_more(rate, text):
    assert format_rate(rate) == text
