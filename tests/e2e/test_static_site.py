"""The dashboard as static files on another host than the service's."""

import os
import re
import shutil
import subprocess

import pytest
from playwright.sync_api import expect

from support.service import serving
from support.static_host import WEB, StaticHost

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules" / "vite").is_dir(),
    reason="the dashboard cannot be built here; `npm install` in web/ gets what it takes",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory, service):
    """The dashboard on a host of static files, from whose pages the service may be called."""
    with StaticHost(tmp_path_factory.mktemp("site")) as host, serving(service.jobs, origins=(host.address,)) as call:
        command = ["npx", "--no-install", "vite", "build", "--outDir", str(host.folder), "--emptyOutDir"]
        environment = {**os.environ, "VITE_API_URL": call.address}
        built = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
        yield host.address


def test_the_whole_flow_from_another_site(open_page, site, client):
    page = open_page(site=site, bypass_csp=False)
    page.get_by_role("textbox", name="Your batch size today").fill("23")
    page.get_by_role("button", name="Analyze Memory Usage").click()
    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    expect(page.get_by_text("How this was found")).to_be_visible()
    job_id = page.url.rpartition("/")[2]
    best = client.job(job_id).document["result"]["recommended_batch_size"]

    assert page.url.startswith(site)
    page.reload()
    expect(page.get_by_role("heading", name=f"Batch {best}").first).to_be_visible()
    page.get_by_role("link", name="History", exact=True).click()
    expect(page.locator(f'a[href*="{job_id}"]').first).to_be_visible()
    page.reload()
    expect(page.locator(f'a[href*="{job_id}"]').first).to_be_visible()
