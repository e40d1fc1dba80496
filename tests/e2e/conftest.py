"""A real Chromium against the real service with real predictions."""

import pytest

from support.dashboard import DESKTOP


@pytest.fixture(scope="session")
def address(call):
    return call.address


@pytest.fixture
def open_page(browser, address):
    """Opens a route of the dashboard; anything the page complains about fails the test."""
    contexts, complaints = [], []

    def open_route(route="/", viewport=DESKTOP, *, site=address, bypass_csp=True):
        # axe is put into the page, which its security policy would not let anybody else do.
        # Nobody vouches for the certificate of the proxy that one test starts.
        context = browser.new_context(
            viewport=viewport, reduced_motion="reduce", bypass_csp=bypass_csp, ignore_https_errors=True
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{site}/#{route}")
        return page

    yield open_route
    for context in contexts:
        context.close()
    assert complaints == []
