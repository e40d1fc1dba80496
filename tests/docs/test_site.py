"""The site is built without a warning, looks at no other site, and can be searched without a server."""

import re

import pytest

PAGES = ("index.html", "cli.html", "reference/http.html")
SIZES = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture
def open_page(browser, site):
    """Opens a page of the site from the disk, and notes every call to another site."""
    contexts, calls = [], []

    def open_one(name, size="desktop", **options):
        context = browser.new_context(viewport=SIZES[size], **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: request.url.startswith("file:") or calls.append(request.url))
        page.goto((site / name).as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert calls == []


@pytest.mark.parametrize("size", SIZES)
def test_the_search_finds_a_page_without_a_server(open_page, size):
    page = open_page("index.html", size)
    if size == "phone":
        page.locator("label.md-header__button[for=__search]").click()
    page.get_by_role("textbox", name="Search").click()
    page.get_by_role("textbox", name="Search").type("expandable segments")
    page.locator(".md-search-result__link", has_text="expandable").first.click()
    page.wait_for_url("**/*.html?h=*")
    assert "expandable" in page.locator("article").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_follows_the_colours_of_the_system(open_page, scheme):
    background = open_page("index.html", color_scheme=scheme).evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert (brightness > 200) == (scheme == "light")


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_a_phone(open_page, name):
    page = open_page(name, "phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"]["width"]


def test_lists_tables_and_code_are_read_as_such(site):
    """Python-Markdown wants an empty line before a list and four spaces below it, GitHub does not mind."""
    left = {}
    for page in site.rglob("*.html"):
        html = re.sub(r"<pre.*?</pre>|<code.*?</code>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        paragraphs = re.findall(r"<p>(.*?)</p>", html, re.DOTALL)
        if raw := [text for text in paragraphs if re.search(r"^(?:- |\* |\d+\. |\|.*\|$|```)", text, re.MULTILINE)]:
            left[page.name] = raw
    assert left == {}
