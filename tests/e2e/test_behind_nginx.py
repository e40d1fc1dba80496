"""The dashboard over TLS, through nginx as deploy/nginx/memorymark.conf sets it up."""

import re
import time
from datetime import datetime

import pytest
from playwright.sync_api import expect

from support.calls import TOKEN
from support.dashboard import press
from support.nginx import behind_nginx
from support.service import serving

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def proxied(service, tmp_path_factory):
    with (
        serving(service.jobs, token=TOKEN) as call,
        behind_nginx(call.port, tmp_path_factory.mktemp("nginx"), Authorization=f"Bearer {TOKEN}") as proxied,
    ):
        yield proxied


def test_a_question_is_asked_watched_and_answered_through_the_proxy(open_page, proxied):
    page = open_page(site=proxied.address, bypass_csp=False)
    page.get_by_role("textbox", name="Token").fill(TOKEN)
    press(page, "Continue")
    page.get_by_role("textbox", name="Sequence length").fill("96")
    press(page, "Analyze Memory Usage")
    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    job_id = page.url.rpartition("/")[2]
    expect(page.get_by_text("starting a worker and building BERT base").first).to_be_visible()
    seen_at = time.time()
    expect(page.get_by_text("How this was found")).to_be_visible()

    job = proxied.job(job_id)
    assert f"Batch {job['result']['recommended_batch_size']}" in page.inner_text("body")
    assert seen_at < datetime.fromisoformat(job["finished_at"]).timestamp(), "events came only with the answer"
    assert page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
