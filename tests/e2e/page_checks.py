"""What the tests of the dashboard share."""

from axe_playwright_python.sync_playwright import Axe

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
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
