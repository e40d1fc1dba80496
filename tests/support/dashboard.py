"""The dashboard in a browser: the screens it is looked at on, what is done to its pages and asked of them."""

from axe_playwright_python.sync_playwright import Axe

DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 360, "height": 740}
# Where the first screen is looked at.
PHONE_OF_TODAY = {"width": 390, "height": 844}
# A config to paste.
TINY_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 512,
}


def press(page, name):
    page.get_by_role("button", name=name).first.click()


def require_accessible(page):
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def require_no_sideways_scrolling(page):
    page.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
