"""Pieces of work in several lanes."""

import threading
from functools import partial

import pytest

from memorymark.engine.side_by_side import Relay, side_by_side
from memorymark.events import StageStarted, ignore

SECONDS = 60


def of(number, lane):
    return number


def test_results_come_in_the_order_of_the_pieces():
    last_began = threading.Event()

    def first(_):
        assert last_began.wait(SECONDS)
        return 0

    def last(_):
        last_began.set()
        return 2

    assert side_by_side([first, partial(of, 1), last], ["a", "b"], print, Relay(ignore)) == [0, 1, 2]


def test_no_two_pieces_share_a_lane_at_once():
    busy, both = set(), threading.Barrier(2)

    def piece(lane):
        assert lane not in busy
        busy.add(lane)
        both.wait(SECONDS)
        busy.remove(lane)
        return lane

    assert {*side_by_side([piece] * 6, ["a", "b"], print, Relay(ignore))} == {"a", "b"}


def test_with_one_lane_the_caller_does_the_work_itself():
    threads = side_by_side([lambda _: threading.current_thread()] * 2, ["a"], print, Relay(ignore))
    assert threads == [threading.current_thread()] * 2


def test_if_a_piece_fails_all_lanes_are_stopped():
    stopped = {lane: threading.Event() for lane in "ab"}
    under_way = threading.Event()

    def goes_on(lane):
        under_way.set()
        assert stopped[lane].wait(SECONDS)
        raise RuntimeError("stopped")

    def fails(_):
        assert under_way.wait(SECONDS)
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        side_by_side([goes_on, fails, partial(of, 1)], ["a", "b"], lambda lane: stopped[lane].set(), Relay(ignore))
    assert all(one.is_set() for one in stopped.values())


def test_listeners_are_told_in_the_callers_thread():
    heard = []
    relay = Relay(lambda event: heard.append((event.message, threading.current_thread())))

    def piece(lane):
        relay(StageStarted("search", "from the piece"))

    side_by_side([piece] * 3, ["a", "b"], print, relay)
    relay(StageStarted("search", "from the caller"))
    here = threading.current_thread()
    assert heard == 3 * [("from the piece", here)] + [("from the caller", here)]


def test_a_listener_that_raises_ends_the_work():
    stopped = threading.Event()

    def interrupt(_):
        raise KeyboardInterrupt

    relay = Relay(interrupt)

    def piece(lane):
        relay(StageStarted("search", "under way"))
        assert stopped.wait(SECONDS)

    with pytest.raises(KeyboardInterrupt):
        side_by_side([piece], ["a", "b"], lambda _: stopped.set(), relay)
