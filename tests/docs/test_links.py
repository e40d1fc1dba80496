"""Links lead somewhere, on GitHub and on the site; pictures say in words what they show."""

import re
from urllib.parse import urlsplit

import pytest

from support.documentation import PAGES, ROOT, SITE, anchors_of, links_of, name_of

EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=name_of)


def is_broken(page, target):
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return True
    is_generated = file.parent == ROOT / "docs" / "reference"
    return bool(anchor) and file.suffix == ".md" and not is_generated and anchor not in anchors_of(file)


@EVERY_PAGE
def test_links_lead_to_a_file_and_a_heading_that_exist(page):
    inside = [target for _, target, _ in links_of(page) if not urlsplit(target).scheme]
    assert [target for target in inside if is_broken(page, target)] == []


@EVERY_PAGE
def test_links_to_the_site_lead_to_a_page_of_it(page):
    on_site = [target.removeprefix(SITE) for _, target, _ in links_of(page) if target.startswith(SITE)]
    sources = [re.sub(r"(\.html)?(#.*)?$", ".md", target or "index.html") for target in on_site]
    assert [source for source in sources if not (ROOT / "docs" / source).exists()] == []


@EVERY_PAGE
def test_links_to_other_sites_are_whole_addresses(page):
    outside = [urlsplit(target) for _, target, _ in links_of(page) if urlsplit(target).scheme]
    assert [link.geturl() for link in outside if link.scheme not in ("https", "mailto")] == []
    assert [link.geturl() for link in outside if link.scheme == "https" and "." not in link.netloc] == []


@EVERY_PAGE
def test_pictures_have_words_for_those_who_do_not_see_them(page):
    pictures = [(text, target) for text, target, is_picture in links_of(page) if is_picture]
    assert [target for text, target in pictures if len(text) < 10] == []


def test_there_are_links_to_check():
    assert sum(1 for page in PAGES for _ in links_of(page)) > 150
