"""Sweeps in the dashboard: one that runs fills in before whoever watches it."""

import threading
from collections import deque
from contextlib import closing, contextmanager

import pytest
from playwright.sync_api import expect

from memorymark.history import Store
from memorymark.sweep.kept import sweep_id
from memorymark.sweep.local import LocalEngine
from memorymark.sweep.running import Sweeping
from support.dashboard import DESKTOP, PHONE, require_accessible, require_no_sideways_scrolling
from support.sweeps import cases

# Half of it fits.
SWEEP = "model: bert\nsmall: true\nseq_len: 8\nmax_batch: 8\nmemory_gib: [0.05, 0.001]\ngpu: [a10, l4]\n"
PATIENCE_SECONDS = 120.0
expect.set_options(timeout=60_000)


class OneByOne(LocalEngine):
    """Tells of one case at a time, however many have ended meanwhile."""

    def __init__(self):
        super().__init__(workers=1)
        self._told = deque()

    def next(self, seconds):
        self._told.extend([] if self._told else super().next(seconds))
        return [self._told.popleft()] if self._told else []


@contextmanager
def sweeping(service, source):
    """A sweep with a real worker in the history that the service shows; gives what lets it go on by so many steps."""
    may_go_on = threading.Semaphore(0)

    def sweep():
        asked = cases(SWEEP)
        with closing(Store(f"sqlite:///{service.jobs.store.file}")) as store:

            def wait(_):
                while not may_go_on.acquire(timeout=1.0):
                    store.sweeps.give_sign(sweep_id(asked))

            Sweeping(asked, OneByOne(), store, source=source, fresh=True, on_progress=wait).run()

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield may_go_on.release
    finally:
        may_go_on.release(10)
        thread.join(PATIENCE_SECONDS)


def rows(page):
    return page.get_by_role("table", name="Cases of this sweep").locator("tbody tr")


def test_a_sweep_is_watched_filtered_and_opened(open_page, service):
    page = open_page("/sweeps")
    with sweeping(service, "live.yaml") as go_on:
        page.get_by_role("link", name="live.yaml").click()
        expect(page.get_by_role("heading", name="Sweep live.yaml")).to_be_visible()
        expect(page.get_by_text("0 of 4 cases")).to_be_visible()
        expect(rows(page).get_by_role("cell", name="Waiting")).to_have_count(4)
        require_accessible(page)
        go_on()
        expect(page.get_by_text("1 of 4 cases")).to_be_visible()
        expect(rows(page).get_by_role("cell", name="Waiting")).to_have_count(3)
        go_on(10)
        expect(page.get_by_text("finished", exact=True)).to_be_visible()
    expect(page.get_by_role("status", name="Announcement")).to_contain_text("The sweep has finished: 4 cases")
    expect(rows(page).get_by_role("cell", name="Waiting")).to_have_count(0)
    expect(rows(page).filter(has_text="does not fit")).to_have_count(2)
    require_accessible(page)

    page.get_by_role("switch", name="Only what fits").press("Space")
    expect(rows(page)).to_have_count(2)
    page.get_by_role("combobox", name="GPU").press("Enter")
    page.get_by_role("option", name="L4").press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_text("1 of 4 cases")).to_be_visible()
    page.wait_for_url("**only=fits**")
    rows(page).get_by_role("link").click()
    page.wait_for_url("**#/job/*")
    expect(page.get_by_text("How this was found")).to_be_visible()
    page.go_back()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("switch", name="Only what fits").press("Space")
    expect(rows(page)).to_have_count(2)
    with page.expect_response("**/sweeps/*"):
        pass
    expect(rows(page)).to_have_count(2)  # what the address asked for at first does not come back
    page.evaluate("window.location.hash = window.location.hash.split('?')[0] + '?only=fits'")
    expect(rows(page).get_by_role("link")).to_have_count(2)
    expect(page.get_by_role("combobox", name="GPU")).to_have_text("Any")

    with page.expect_download() as started:
        page.get_by_role("button", name="Export as CSV").click()
    assert len(started.value.path().read_text().splitlines()) == 5  # whatever is shown


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_pages_of_sweeps_fit_the_screen(open_page, service, viewport):
    with sweeping(service, "fits.yaml") as go_on:
        go_on(10)
        page = open_page("/sweeps", viewport)
        expect(page.get_by_role("link", name="fits.yaml")).to_be_visible()
        require_no_sideways_scrolling(page)
        require_accessible(page)
        page.get_by_role("link", name="fits.yaml").click()
        expect(page.get_by_text("finished", exact=True)).to_be_visible()
    expect(rows(page).first).to_contain_text("maximum" if viewport == PHONE else "8")
    require_no_sideways_scrolling(page)
    require_accessible(page)


def test_a_link_to_a_sweep_that_is_gone_says_so(open_page):
    page = open_page("/sweep/000000000000")

    expect(page.get_by_role("heading", name="No sweep at this link")).to_be_visible()
    require_accessible(page)
