from dataclasses import replace
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorymark.engine.throughput import measure_curve
from memorymark.results.recommendation import recommend, thrashing_sizes
from memorymark.results.trial import Trial


def timed(size, samples_per_second, reserved=0, retries=0):
    return Trial(
        batch_size=size,
        fits=True,
        samples_per_second=samples_per_second,
        peak_reserved_bytes=reserved,
        allocator_retries=retries,
    )


class Measured:
    """Gives a throughput for each size up to what fits, and remembers the order of the calls."""

    def __init__(self, speed, fits_up_to):
        self.speed, self.fits_up_to, self.sizes = speed, fits_up_to, []

    def __call__(self, size):
        self.sizes.append(size)
        return timed(size, self.speed(size)) if size <= self.fits_up_to else Trial(batch_size=size, fits=False)


def flat(size):
    return 100.0


def test_the_curve_has_the_largest_the_safe_the_current_and_the_powers_of_two():
    measure = Measured(flat, 100)

    curve = measure_curve(measure, maximum=100, current=20, safe_size=93)

    assert [trial.batch_size for trial in curve] == [8, 16, 20, 32, 64, 93, 100]
    assert measure.sizes[0] == 100
    assert len(measure.sizes) == len(curve)


@pytest.mark.parametrize("fits_up_to", [1, 2, 50, 95, 98, 99])
def test_if_the_largest_fails_now_the_largest_that_fits_takes_its_place(fits_up_to):
    curve = measure_curve(Measured(flat, fits_up_to), maximum=100, current=16, safe_size=99)

    assert max(trial.batch_size for trial in curve if trial.fits) == fits_up_to
    assert min(trial.batch_size for trial in curve if not trial.fits) == fits_up_to + 1


@pytest.mark.parametrize(
    "safe_size",
    [1, 10, 2000, 3000],
)
def test_however_few_sizes_are_safe_few_are_timed(safe_size):
    measure = Measured(flat, 3000)

    measure_curve(measure, maximum=3000, current=16, safe_size=safe_size)

    assert len(measure.sizes) <= 2 * log2(3000)


def test_a_safe_size_that_takes_too_much_makes_way_for_the_largest_that_does_not():
    def measure(size):
        return timed(size, samples_per_second=100 * size / (size + 20), reserved=size + 6)

    trials = measure_curve(measure, maximum=144, current=16, safe_size=135, safe_bytes=0.95 * 144)

    assert recommend(trials, safe_bytes=0.95 * 144).batch_size == pytest.approx(130, abs=2)
    assert len([trial for trial in trials if trial.batch_size > 64]) <= 6


def test_where_a_smaller_size_is_as_fast_a_safe_size_that_takes_too_much_is_let_be():
    trials = measure_curve(lambda size: timed(size, 100, reserved=size + 6), 144, 16, 135, safe_bytes=0.95 * 144)

    assert [trial.batch_size for trial in trials if trial.batch_size > 64] == [135, 144]


def test_a_current_size_beyond_the_largest_is_not_run():
    measure = Measured(flat, 20)

    measure_curve(measure, maximum=20, current=64, safe_size=40)

    assert max(measure.sizes) == 20


@pytest.mark.parametrize("maximum", [1, 2, 7])
def test_below_eight_every_size_is_timed(maximum):
    curve = measure_curve(Measured(flat, maximum), maximum, current=16, safe_size=1)

    assert [trial.batch_size for trial in curve] == list(range(1, maximum + 1))


def test_a_size_between_the_last_slow_and_the_first_fast_one_is_timed():
    curve = measure_curve(Measured(lambda size: min(10.0 * size, 230), 64), maximum=64, current=16, safe_size=60)

    assert 24 in [trial.batch_size for trial in curve]


@settings(deadline=None)
@given(
    speed=st.functions(like=lambda size: ..., returns=st.floats(0.1, 1e6), pure=True),
    maximum=st.integers(1, 300),
    fits_up_to=st.integers(0, 300),
    current=st.integers(1, 400),
    safe_size=st.integers(1, 400),
)
def test_only_slow_sizes_are_measured_twice_and_none_above_the_maximum(speed, maximum, fits_up_to, current, safe_size):
    measure = Measured(speed, fits_up_to)

    curve = measure_curve(measure, maximum, current, safe_size)

    sizes = [trial.batch_size for trial in curve]
    assert sizes == sorted(set(measure.sizes))
    again = {size for size in sizes if measure.sizes.count(size) > 1}
    assert again == thrashing_sizes(curve)
    assert maximum in sizes
    assert min(maximum, max(fits_up_to, 1)) in sizes
    assert 1 <= min(sizes) <= max(sizes) <= maximum


def test_a_size_that_was_slow_only_once_is_not_thrashing():
    calls = []

    def measure(size):
        calls.append(size)
        return timed(size, 10 if size == 100 and calls.count(100) == 1 else 100)

    curve = measure_curve(measure, maximum=100, current=16, safe_size=95)

    assert calls.count(100) == 2
    assert thrashing_sizes(curve) == set()


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        pytest.param([timed(8, 50), timed(16, 97), timed(32, 100)], 16, id="smallest within 5 %, with 2 % kept"),
        pytest.param([timed(8, 50), timed(16, 94), timed(32, 100)], 32, id="6 % slower is too slow"),
        pytest.param([timed(8, 50), timed(16, 80), timed(32, 100, reserved=1001)], 16, id="keeps the margin"),
        pytest.param([timed(8, 90), timed(16, 80), timed(32, 100, reserved=1001)], 8, id="fastest of the safe"),
        pytest.param([timed(8, 50), timed(16, 80), timed(32, 100, retries=1)], 16, id="no allocator retries"),
        pytest.param([timed(8, 80), timed(16, 82), timed(32, 100, retries=1)], 8, id="best without retries"),
        pytest.param([timed(16, 100, reserved=1000)], 16, id="the margin itself is safe"),
        pytest.param([timed(8, 100), Trial(batch_size=4, fits=False), timed(2, None)], 8, id="only timed fits"),
        pytest.param([timed(16, 100, reserved=1001)], None, id="nothing keeps the margin"),
        pytest.param([timed(16, 100, retries=1)], None, id="everything retries"),
        pytest.param([Trial(batch_size=4, fits=False), timed(2, None)], None, id="nothing was timed"),
        pytest.param([], None, id="nothing ran"),
    ],
)
def test_recommended_is_the_smallest_good_safe_size(trials, expected):
    recommended = recommend(trials, safe_bytes=1000)

    assert (recommended.batch_size if recommended else None) == expected


@pytest.mark.parametrize(
    ("source", "speed", "expected"),
    [
        ("measured", 97.0, 16),
        ("measured", 96.9, 32),
        ("predicted", 98.5, 16),
        ("predicted", 98.4, 32),
    ],
)
def test_a_predicted_size_must_come_closer_to_the_best_than_a_measured_one(source, speed, expected):
    trials = [replace(trial, source=source) for trial in (timed(8, 50.0), timed(16, speed), timed(32, 100.0))]

    assert recommend(trials, safe_bytes=1000).batch_size == expected


@pytest.mark.parametrize(("source", "bend"), [("measured", 24), ("predicted", 48)])
def test_the_bend_is_looked_for_where_the_source_s_own_bar_is_crossed(source, bend):
    speeds = {8: 50.0, 16: 70.0, 32: 97.0, 64: 100.0}

    def measure(size):
        return replace(timed(size, speeds.get(size, 96.5)), source=source)

    curve = measure_curve(measure, maximum=64, current=16, safe_size=64)

    assert [trial.batch_size for trial in curve if trial.batch_size not in speeds] == [bend]


@settings(deadline=None)
@given(
    st.lists(
        st.builds(timed, st.integers(1, 99), st.floats(0.1, 1e4), st.integers(0, 2000), st.integers(0, 1)),
        unique_by=lambda trial: trial.batch_size,
    )
)
def test_the_recommended_size_is_safe_and_no_smaller_safe_size_is_as_fast(trials):
    safe = [t for t in trials if t.peak_reserved_bytes <= 1000 and t.batch_size not in thrashing_sizes(trials)]

    recommended = recommend(trials, safe_bytes=1000)

    if recommended is None:
        assert not safe
    else:
        assert recommended in safe
        smaller = [t for t in safe if t.batch_size < recommended.batch_size]
        assert all(0.95 * t.samples_per_second <= recommended.samples_per_second for t in safe)
        assert all(t.samples_per_second <= recommended.samples_per_second for t in smaller)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        pytest.param([timed(8, 100), timed(16, 81), timed(32, 79)], {32}, id="a quarter more time per sample"),
        pytest.param([timed(32, 79), timed(8, 100)], {32}, id="whatever the order"),
        pytest.param([timed(8, 100), timed(16, 100, retries=2)], {16}, id="retries"),
        pytest.param([timed(8, 60), timed(16, 100), timed(32, 100)], set(), id="a slow small size is no jump"),
        pytest.param([timed(8, 1000, retries=1), timed(16, 100)], {8}, id="only against sizes that do not"),
        pytest.param([timed(8, 100), Trial(batch_size=16, fits=False)], set(), id="a failure is not slow"),
    ],
)
def test_thrashing_is_retries_or_a_jump_in_time_per_sample(trials, expected):
    assert thrashing_sizes(trials) == expected


def test_no_size_is_recommended_that_is_not_certain_to_fit():
    speeds = {16: 100.0, 60: 190.0, 64: 200.0}
    trials = [
        Trial(batch_size=size, fits=True, source="predicted", samples_per_second=speed)
        for size, speed in speeds.items()
    ]
    assert recommend(trials, float("inf")).batch_size == 64
    assert recommend(trials, float("inf"), largest=63).batch_size == 60
    assert recommend(trials, float("inf"), largest=8) is None
