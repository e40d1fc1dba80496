import pytest

from memorymark.training.timing import MAX_SECONDS, MAX_STEPS, WINDOW_STEPS, time_until_steady


class Steps:
    """Windows of step times, handed out one after the other; the last repeats for ever."""

    def __init__(self, *windows):
        self.windows, self.ran = list(windows), 0

    def __call__(self, count):
        self.ran += count
        return self.windows.pop(0) if len(self.windows) > 1 else self.windows[0]


def constant(seconds):
    return [seconds] * WINDOW_STEPS


def test_steps_that_never_change_are_timed_for_two_windows():
    steps = Steps(constant(0.2))

    timed = time_until_steady(steps)

    assert (timed.seconds, timed.spread) == (pytest.approx(0.2), pytest.approx(0))
    assert steps.ran == 2 * WINDOW_STEPS


def test_warm_up_is_waited_for_and_left_out():
    steps = Steps(constant(1.0), constant(0.4), constant(0.3), constant(0.2))

    timed = time_until_steady(steps)

    assert timed.seconds == pytest.approx(0.2)
    assert timed.spread == pytest.approx(0)
    assert steps.ran == 5 * WINDOW_STEPS


def test_one_slow_step_neither_moves_the_median_nor_keeps_the_timing_going():
    steps = Steps([0.2, 0.2, 3.0, 0.2], constant(0.2))

    timed = time_until_steady(steps)

    assert timed.seconds == pytest.approx(0.2)
    assert steps.ran == 2 * WINDOW_STEPS


def test_the_spread_is_the_interquartile_range_over_the_median():
    timed = time_until_steady(Steps([1.8, 2.0, 2.0, 2.2]))

    assert timed.seconds == pytest.approx(2.0)
    assert timed.spread == pytest.approx(0.15)


@pytest.mark.parametrize(("change", "windows"), [(0.04, 2), (0.06, 3)])
def test_a_window_is_steady_below_five_percent_of_change_either_way(change, windows):
    for later in (1.0 + change, 1.0 - change):
        steps = Steps(constant(1.0), constant(later))

        time_until_steady(steps)

        assert steps.ran == windows * WINDOW_STEPS


def test_steps_that_never_settle_end_at_the_most_steps():
    steps = Steps(*(constant(0.01 * (1 + i % 2)) for i in range(MAX_STEPS)))

    time_until_steady(steps)

    assert steps.ran == MAX_STEPS


def test_slow_steps_that_never_settle_end_when_the_time_is_used_up():
    slow = MAX_SECONDS / WINDOW_STEPS / 2
    steps = Steps(constant(slow), constant(2 * slow), constant(slow))

    time_until_steady(steps)

    assert steps.ran == 2 * WINDOW_STEPS


def test_if_time_runs_out_the_answer_is_the_last_window_alone():
    timed = time_until_steady(Steps(constant(MAX_SECONDS), [1.0, 2.0, 2.0, 3.0]))

    assert timed.seconds == pytest.approx(2.0)
    assert timed.spread == pytest.approx(0.75)
