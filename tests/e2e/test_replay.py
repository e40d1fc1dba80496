"""A recording in the dashboard, as it is shown in a talk."""

import re

import pytest
from playwright.sync_api import expect

from support.dashboard import PHONE_OF_TODAY, press, require_accessible, require_no_sideways_scrolling
from support.recordings import MEASURED, replaying

BANNER = "Not live: BERT base on NVIDIA H200, measured. Recorded 15 Nov 2026"
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def recorded():
    with replaying(MEASURED, speed=30.0) as call:
        yield call


@pytest.fixture(scope="module")
def recorded_for_watching():
    """At a pace at which a page on a busy machine still sees the end coming."""
    with replaying(MEASURED, speed=2.0) as call:
        yield call


@pytest.fixture
def open_replay(open_page, recorded):
    return lambda route="/", **how: open_page(route, site=recorded.address, **how)


@pytest.fixture(scope="session")
def address():
    """No page here is of the service that computes."""


def test_the_recording_is_played_from_the_form_and_labelled_all_the_way(open_page, recorded_for_watching):
    page = open_page("/", site=recorded_for_watching.address)
    expect(page.get_by_text(BANNER)).to_be_visible()
    expect(page.get_by_role("status").get_by_text("Plays a recording")).to_be_visible()
    press(page, "Analyze Memory Usage")

    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    expect(page.get_by_role("log").get_by_text("batch 267")).to_contain_text("out of memory")
    expect(page.get_by_role("heading", name="Batch 128 trains 1.42x faster")).to_be_visible()
    expect(page.get_by_text(BANNER)).to_be_visible()
    expect(page.get_by_role("main").get_by_text("recorded", exact=True)).to_be_visible()
    require_accessible(page)


def test_the_button_of_the_banner_plays_it_whatever_the_form_says(open_replay):
    page = open_replay("/?model=gpt2")
    press(page, "Play the recording")

    expect(page.get_by_role("heading", name="Batch 128 trains 1.42x faster")).to_be_visible()
    press(page, "Play again")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()


def test_another_question_is_refused_and_the_recorded_one_is_a_click_away(open_replay):
    page = open_replay("/?model=gpt2&precision=bf16")
    press(page, "Analyze Memory Usage")
    expect(page.get_by_role("alert")).to_contain_text("a recording of one question about BERT base")
    require_accessible(page)
    press(page, "Ask the recorded question")
    press(page, "Analyze Memory Usage")

    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))


def test_the_banner_fits_a_phone(open_replay):
    page = open_replay(viewport=PHONE_OF_TODAY)
    expect(page.get_by_text(BANNER)).to_be_visible()

    expect(page.get_by_role("button", name="Analyze Memory Usage")).to_be_in_viewport()
    require_no_sideways_scrolling(page)
    require_accessible(page)
