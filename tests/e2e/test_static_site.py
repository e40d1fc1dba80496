"""The dashboard as static files on another host than the service's."""

import os
import re
import shutil
import subprocess
import time
from datetime import datetime

import pytest
from playwright.sync_api import expect

from support.calls import TOKEN
from support.dashboard import press
from support.service import serving
from support.static_host import WEB, StaticHost

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules" / "vite").is_dir(),
    reason="the dashboard cannot be built here; `npm install` in web/ gets what it takes",
)


expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def built(tmp_path_factory, service):
    """Two hosts with the dashboard's static files; the service has a token, and may be called from the first only."""
    folder = tmp_path_factory.mktemp("site")
    with (
        StaticHost(folder) as allowed,
        StaticHost(folder) as stranger,
        serving(service.jobs, origins=(allowed.address,), token=TOKEN) as call,
    ):
        command = ["npx", "--no-install", "vite", "build", "--outDir", str(folder), "--emptyOutDir"]
        environment = {**os.environ, "VITE_API_URL": call.address}
        done = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield allowed.address, stranger.address


@pytest.fixture
def open_site(open_page, built):
    """Opens the page on the host from which the service may be called."""
    return lambda: open_page(site=built[0], bypass_csp=False)


def enter(page, token):
    page.get_by_role("textbox", name="Token").fill(token)
    press(page, "Continue")


def test_the_whole_flow_from_another_site(open_site, client):
    page = open_site()
    enter(page, TOKEN)
    page.get_by_role("textbox", name="Sequence length").fill("144")
    press(page, "Analyze Memory Usage")
    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    job_id = page.url.rpartition("/")[2]
    expect(page.get_by_text("starting a worker and building BERT base").first).to_be_visible()
    seen_at = time.time()
    expect(page.get_by_text("How this was found")).to_be_visible()
    job = client.job(job_id).document

    assert seen_at < datetime.fromisoformat(job["finished_at"]).timestamp(), "events came only with the answer"
    page.reload()
    best = job["result"]["recommended_batch_size"]
    expect(page.get_by_role("heading", name=f"Batch {best}").first).to_be_visible()
    page.get_by_role("link", name="History", exact=True).click()
    expect(page.locator(f'a[href*="{job_id}"]').first).to_be_visible()
    page.reload()
    expect(page.locator(f'a[href*="{job_id}"]').first).to_be_visible()


def test_a_wrong_token_is_refused_and_asked_for_again(open_site):
    page = open_site()
    enter(page, "not-the-token-at-all")
    expect(page.get_by_text("That token was not accepted.")).to_be_visible()
    enter(page, TOKEN)

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Analyze Memory Usage")).to_be_visible()


def test_a_page_of_a_site_that_may_not_call_says_which_origin_to_allow(open_page, built):
    page = open_page(site=built[1], bypass_csp=False)

    expect(page.get_by_role("alert")).to_contain_text(f"must have been started with --origin {built[1]}")
    expect(page.get_by_role("dialog")).to_have_count(0)
