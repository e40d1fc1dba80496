from math import ceil, log2
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memorymark.largest_batch import find_maximum, largest_that, size_within
from memorymark.results.trial import Failure, Trial

MB = 10**6
CAPACITY = 23_300 * MB

# What real GPUs showed at a capacity of 23,300 MB: MB at batch 0, MB per sample, the part that could be used.
REAL_CURVES = [
    (1459, 80.66, 0.983),
    (1580, 147.5, 0.979),
    (386, 86.6, 0.987),
    (1600, 51.9, 0.982),
    (440, 44.68, 0.991),
]


def trial(size, fits, *, forward=0, backward=0, resting=0):
    return Trial(
        batch_size=size,
        fits=fits,
        forward_peak_bytes=int(forward),
        backward_peak_bytes=int(backward),
        resting_bytes=int(resting),
        failure=None if fits else Failure("memory", "out of memory"),
    )


def search(fits, backward, *, resting=0, capacity_bytes=CAPACITY, **options):
    """Searches over a curve of backward peaks; in the forward pass there are no gradients yet."""

    def run(size):
        peak = backward(size)
        forward = min(peak - backward(0) + resting, peak)
        return trial(size, fits(size), forward=forward, backward=peak, resting=resting)

    return find_maximum(run, capacity_bytes, **options)


class Told:
    """A guide that says what it is told to."""

    def __init__(self, forecast, second=None):
        self._forecast, self._second = forecast, second

    def forecast(self):
        return self._forecast

    def second_batch(self):
        return self._second


def sizes_run(result):
    return [trial.batch_size for trial in result.trials]


any_bytes = st.one_of(
    st.just(0), st.just(CAPACITY), st.integers(-CAPACITY, 2 * CAPACITY), st.integers(-(10**18), 10**18)
)


@st.composite
def peaks(draw):
    """A memory curve: bytes by size. Some look like memory does, some do not."""
    fixed, noise_seed = draw(st.integers(0, 3_000)) * MB, draw(st.integers(0, 2**32))
    slope = draw(st.one_of(st.integers(1, 2_000 * MB), st.integers(-(10**12), 10**12), st.just(0)))
    step = draw(st.integers(2, 64))
    return draw(
        st.sampled_from(
            [
                lambda size: fixed + slope * size,
                lambda size: fixed + slope * step * ceil(size / step),
                lambda size: fixed + slope * size + Random(noise_seed * size).randint(-500 * MB, 500 * MB),
                lambda size: CAPACITY - CAPACITY // (size + 1),
                lambda size: CAPACITY * size**3 // 10**12,
                lambda size: -slope * size**2,
                lambda size: 10**18,
            ]
        )
    )


@settings(deadline=None)
@given(
    outcome=st.functions(
        like=lambda size: ...,
        returns=st.builds(dict, fits=st.booleans(), forward=any_bytes, backward=any_bytes, resting=any_bytes),
        pure=True,
    ),
    limit=st.integers(1, 100),
)
def test_whatever_the_curve_the_answer_ran_and_fit_and_no_size_ran_twice(outcome, limit):
    result = find_maximum(lambda size: trial(size, **outcome(size)), CAPACITY, limit=limit)

    sizes = sizes_run(result)
    assert len(sizes) == len(set(sizes))
    assert all(1 <= size <= limit for size in sizes)
    assert result.maximum == max((t.batch_size for t in result.trials if t.fits), default=0)
    if result.exact:
        assert result.blocker in result.trials
        assert result.blocker.batch_size == result.maximum + 1
        assert not result.blocker.fits
    else:
        assert result.maximum == limit
        assert result.blocker is None


@settings(deadline=None)
@given(
    peak=peaks(),
    answer=st.integers(0, 300),
    limit=st.integers(1, 300),
    resting=any_bytes,
)
def test_where_fitting_is_monotone_the_answer_is_exact_or_the_limit(peak, answer, limit, resting):
    result = search(lambda size: size <= answer, peak, limit=limit, resting=resting)

    assert result.maximum == min(answer, limit)
    assert result.exact == (answer < limit)
    assert {result.maximum, result.maximum + result.exact} - {0} <= set(sizes_run(result))


@example(capacity=77130, growth=[0, 468, 758, 132, 4148, 4341, 65536], answer=71_791_139, resting_part=0.0)
@settings(deadline=None)
@given(
    capacity=st.integers(1, 10**12),
    growth=st.lists(st.integers(0, 10**12), min_size=1, max_size=40),
    answer=st.integers(0, 2**31),
    resting_part=st.floats(0, 1),
)
def test_peaks_up_to_the_capacity_need_a_logarithmic_number_of_trials(capacity, growth, answer, resting_part):
    def peak(size):
        """Grows by some of ``growth`` at every power of two, and by a little between."""
        return min(sum(growth[: size.bit_length()]) + size, capacity)

    resting = int(resting_part * peak(1))
    result = search(lambda size: size <= answer, peak, capacity_bytes=capacity, resting=resting)

    # Strides double until they halve what is open: twice 31. A crawl below the ceiling takes a third of what is
    # left of the capacity with each trial: log2(capacity) / log2(1.5).
    assert len(result.trials) <= 2 * 31 + log2(capacity) / log2(1.5) + 5


def test_a_capacity_that_was_underestimated_costs_few_trials():
    result = search(lambda size: size <= 1000, lambda size: 30 * MB * size)

    assert len(result.trials) <= 2 * log2(1000) + 8


@settings(deadline=None)
@given(
    fixed=st.floats(0, 3_000),
    per_sample=st.floats(5, 1_000),
    usable=st.floats(0.97, 0.995),
    resting_part=st.floats(0, 1),
    step_and_noise=st.sampled_from([(1, 0), (1, 0.002), (1, 0.01), (2, 0), (8, 0), (32, 0)]),
    seed=st.integers(0, 2**32),
)
def test_curves_like_those_of_real_models_take_few_trials(
    fixed, per_sample, usable, resting_part, step_and_noise, seed
):
    step, noise = step_and_noise

    def memory(size):
        return (fixed + per_sample * step * ceil(size / step)) * MB

    def seen(size):
        wobble = per_sample * size * Random(seed * size).uniform(-noise, noise) * MB
        return min(memory(size) + wobble, CAPACITY)

    result = search(lambda size: memory(size) <= usable * CAPACITY, seen, resting=int(resting_part * fixed * MB))

    assert result.exact
    assert memory(result.maximum) <= usable * CAPACITY < memory(result.maximum + 1)
    assert len(result.trials) <= 2 * log2(result.maximum + 2) + 8


@pytest.mark.parametrize("resting_part", [0.3, 0.7, 1])
@pytest.mark.parametrize(("fixed", "per_sample", "usable"), REAL_CURVES)
def test_measured_curves_take_at_most_8_trials(fixed, per_sample, usable, resting_part):
    result = search(
        lambda size: fixed + per_sample * size <= usable * 23_300,
        lambda size: (fixed + per_sample * size) * MB,
        resting=int(resting_part * fixed * MB),
    )

    assert result.maximum == int((usable * 23_300 - fixed) / per_sample)
    assert result.exact
    assert len(result.trials) <= 8


@settings(deadline=None)
@given(st.integers(1, 3_000), st.integers(0, 3_000), st.integers(1, 4_000))
def test_sizes_that_a_training_starts_with_have_the_last_word(maximum, maximum_from_start, limit):
    found = find_maximum(
        lambda size: trial(size, size <= maximum, forward=size, backward=size),
        maximum,
        limit=limit,
        from_start=lambda size: trial(size, size <= maximum_from_start),
    )

    assert found.maximum == min(maximum_from_start, limit)
    assert found.exact or found.maximum == limit


def test_where_a_training_can_start_with_what_was_found_one_more_is_tried():
    run = []

    def from_start(size):
        run.append(size)
        return trial(size, size <= 100)

    find_maximum(lambda size: trial(size, size <= 100, forward=size, backward=size), 100, from_start=from_start)

    assert run == [100, 101]


def test_nothing_fits():
    result = search(lambda size: False, lambda size: 0)

    assert (result.maximum, result.exact) == (0, True)
    assert result.blocker.batch_size == 1


@settings(deadline=None)
@given(
    fixed=st.integers(0, 3_000 * MB),
    per_sample=st.integers(MB, 1_000 * MB),
    memory=st.integers(8_000 * MB, 140_000 * MB),
    sizes=st.sets(st.integers(1, 500), min_size=3, max_size=8),
)
def test_size_within_keeps_an_affine_curve_within_the_memory_and_close_to_it(fixed, per_sample, memory, sizes):
    trials = [trial(n, True, backward=fixed + per_sample * n, resting=fixed) for n in sorted(sizes, reverse=True)]

    size = size_within([*trials, trial(600, False)], memory)

    assert fixed + per_sample * size <= memory
    assert fixed + per_sample * (size + 1) >= 0.95 * memory


def test_size_within_follows_the_slope_of_the_largest_sizes():
    peaks_mb = {200: 20_000, 4: 1_000, 100: 10_000, 8: 1_100}
    trials = [trial(size, True, backward=peak * MB) for size, peak in peaks_mb.items()]

    assert 280 <= size_within(trials, memory_bytes=30_000 * MB) <= 300


def test_size_within_is_at_least_one():
    trials = [trial(size, True, backward=(size + 900) * MB) for size in (1, 2, 3)]

    assert size_within(trials, memory_bytes=100 * MB) == 1


SIZE_OR_NOTHING = st.one_of(st.none(), st.integers(0, 20_000))


@given(maximum=st.integers(1, 5_000), forecast=SIZE_OR_NOTHING, second=SIZE_OR_NOTHING)
def test_the_answer_is_exact_whatever_its_guide_says(maximum, forecast, second):
    slope = CAPACITY // (maximum + 1)

    result = search(lambda size: size <= maximum, lambda size: slope * size, guide=Told(forecast, second))

    assert (result.maximum, result.exact) == (maximum, True)


def real_search(miss, **options):
    """A search over a curve as a GPU showed it, with a forecast that misses by so many; and its true answer."""
    a, b, usable = REAL_CURVES[0]

    def fits(size):
        return a + b * size <= usable * 23_300

    maximum = max(size for size in range(1, 300) if fits(size))
    curve = {"resting": 0.95 * a * MB, "guide": Told(maximum + miss)}
    return search(fits, lambda size: (a + b * size) * MB, **curve, **options), maximum


@pytest.mark.parametrize(
    ("miss", "after_the_first"),
    [(0, [1, 0]), (-1, [0, 1]), (-2, [-1, 0, 1]), (1, [2, 1, 0]), (2, [3, 2, 1, -1, 0])],
)
def test_a_good_forecast_leaves_little_to_try(miss, after_the_first):
    result, maximum = real_search(miss)

    assert (result.maximum, result.exact) == (maximum, True)
    assert [size - maximum for size in sizes_run(result)[1:]] == after_the_first


class SmallSteps:
    """A guide that forecasts from trials at its two sizes, and counts those it is told of by their run."""

    def __init__(self, second, forecast):
        self.second, self.size, self.ran = second, forecast, []

    def forecast(self):
        return self.size if self.second in self.ran else None

    def second_batch(self):
        return self.second


def test_the_second_trial_is_where_the_guide_wants_it():
    guide = SmallSteps(second=4, forecast=100)

    def fits(size):
        guide.ran.append(size)
        return size <= 100

    result = search(fits, lambda size: size * MB, guide=guide)

    assert sizes_run(result) == [2, 4, 101, 100]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_second_trial_beyond_the_limit_is_cut_to_it(limit):
    result = search(lambda size: True, lambda size: size * MB, guide=Told(None, second=4), limit=limit)

    assert (result.maximum, result.exact) == (limit, False)


def test_where_the_second_trial_fails_the_search_goes_on_without():
    result = search(lambda size: size <= 3, lambda size: size * MB, guide=Told(None, second=4))

    assert sizes_run(result) == [2, 4, 3]


@pytest.mark.parametrize("maximum", [10, 100, 1_000])
def test_a_forecast_below_a_size_that_fits_is_as_good_as_none(maximum):
    def search_with(forecast):
        slope = CAPACITY // (maximum + 1)
        return search(lambda size: size <= maximum, lambda size: slope * size, guide=Told(forecast))

    assert sizes_run(search_with(1)) == sizes_run(search_with(None))


@pytest.mark.parametrize("limit", [20, 200])
def test_a_forecast_beyond_the_limit_is_cut_to_it(limit):
    result, _ = real_search(0, limit=limit)

    assert (result.maximum, result.exact) == (limit, False)
    assert len(result.trials) <= 3


@pytest.mark.parametrize("maximum", [1_000, 5_000, 20_000])
@pytest.mark.parametrize("share", [0.95, 0.98, 0.99, 1.01, 1.05])
def test_a_forecast_that_misses_by_percents_is_soon_mended(maximum, share):
    slope = CAPACITY // (maximum + 1)
    result = search(lambda size: size <= maximum, lambda size: slope * size, guide=Told(round(share * maximum)))

    assert (result.maximum, result.exact) == (maximum, True)
    assert len(result.trials) <= 6 + 1.5 * log2(abs(1 - share) * maximum)


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(1, 64), st.integers(0, 100))
def test_the_largest_that_fits_is_found_by_asking(maximum, limit, start, stride):
    assert largest_that(lambda size: size <= maximum, start, limit, stride=stride) == min(maximum, limit)


def test_near_a_good_guess_few_are_asked():
    asked = []

    def fits(size):
        asked.append(size)
        return size <= 1_003

    assert largest_that(fits, 1_000, 2**24, stride=4) == 1_003
    assert len(asked) <= 6


@pytest.mark.parametrize(("fits", "answer"), [({80}, 68), ({76, 80}, 80), ({79, 80}, 80)])
def test_a_size_that_fits_where_none_does_for_a_while_below_is_no_answer(fits, answer):
    asked = []

    def ask(size):
        asked.append(size)
        return size <= 68 or size in fits

    assert largest_that(ask, 64, 10_000) == answer
    assert len(asked) < 40


def test_where_only_one_size_fits_it_is_the_answer():
    assert largest_that(lambda size: size == 8, 8, 10_000) == 8


def test_a_start_at_nothing_ends():
    assert largest_that(lambda size: size <= 7, 0, 10_000) == 7
