"""An explanation on the terminal, as a page and as a picture."""

import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

import memorymark as mm
from memorymark.render.console import CleanConsole
from memorymark.render.explanation import LOOK, at_dots, print_explanation
from memorymark.render.explanation_words import STACK, about_removable, rows_of_kinds, rows_of_modules
from memorymark.render.html import page, picture
from memorymark.render.timeline import columns, stacked, timeline_chart
from memorymark.render.treemap import Rectangle, laid_out
from memorymark.results.explanation import Explanation, Removable
from memorymark.units import format_bytes
from support.explained import anatomy, probe_of
from support.html_pages import Reader

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


def explanation(name, removable=None):
    found = anatomy(name)
    request = mm.Request(model="gpt2", small=True)
    return Explanation(
        request=request,
        info=probe_of(name).info,
        trial=found.trial,
        timeline=found.timeline,
        modules=found.modules,
        alive=found.alive,
        removable=removable,
    )


@pytest.fixture(scope="module")
def gpt2():
    could_go = Removable(what="logits", total_bytes=10, share=0.38, change="chunked", recipe={"loss": "chunked"},
                         peak_allocated_bytes=2**30)  # fmt: skip
    return explanation("gpt2, eager attention", could_go)


def shown(result, width=100):
    text = io.StringIO()
    print_explanation(result, CleanConsole(file=text, width=width, color_system=None, force_terminal=False))
    return text.getvalue()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_terminal_of_any_width_shows_the_step_and_its_modules(gpt2, width):
    text = shown(gpt2, width)

    assert max(map(len, text.splitlines())) <= width
    assert "▲" in text and "|forward" in text and "|optimizer" in text
    assert "attention scores" in text and "x 2" in text
    assert all(mark in text for _, mark in (LOOK[part] for part, _ in stacked(gpt2.timeline)))


def test_parts_are_told_apart_without_colours():
    marks = [mark for _, mark in LOOK.values()]
    assert len(set(marks)) == len(marks)
    assert set(LOOK) == set(STACK)


def test_a_step_that_took_more_than_the_trial_is_drawn(gpt2):
    parts = {"weights_bytes": [10, 10, 10], "activations_bytes": [0, 30, 20]}
    timeline = replace(
        gpt2.timeline, events=2, moments=[0, 1, 2], parts=parts, operations=[""] * 3, modules=[""] * 3,
        rounding_bytes=-4, phases=[], peak=1,
    )  # fmt: skip

    assert timeline.peak_bytes == 36
    assert all(len(column) == 6 for column in columns(timeline, 9, 6))


def test_the_columns_of_the_terminal_reach_the_peak_where_it_is(gpt2):
    timeline = gpt2.timeline
    drawn = columns(timeline, 50, 10)
    full = [at for at, column in enumerate(drawn) if column[-1] is not None]

    assert len(drawn) == 50
    assert timeline.moments[timeline.peak] * 50 // (timeline.events + 1) in full
    assert all(part is not None for part in drawn[full[0]])


def test_the_shares_of_the_tables_add_up(gpt2):
    assert sum(row.size_bytes for row in rows_of_modules(gpt2, most=5)) == gpt2.timeline.peak_bytes
    assert sum(share for *_, share in rows_of_kinds(gpt2)) == pytest.approx(1.0)


def test_what_could_go_is_said_with_its_option_and_the_peak_then(gpt2):
    said = about_removable(gpt2)
    assert "38 % of the peak" in said and "--loss chunked" in said and "1.00 GiB instead of" in said
    assert said in Reader(page(gpt2)).text
    assert about_removable(explanation("bert")) is None


def test_a_page_is_whole_and_needs_nothing_else(gpt2):
    read = Reader(page(gpt2))

    assert read.open == []
    assert read.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert not any(attribute.startswith("on") or attribute in ("src", "href") for attribute, _ in read.attributes)


def test_pointing_at_the_step_names_what_runs_there(gpt2):
    chart = timeline_chart(gpt2)
    said = [strip.words for strip in chart.strips]

    assert any("forward: addmm, transformer.h.1.mlp.c_fc" in words for words in said)
    assert any(words.startswith(f"{format_bytes(gpt2.timeline.peak_bytes)} in the backward") for words in said)
    ends = [strip.x + strip.width for strip in chart.strips]
    assert all(end == pytest.approx(strip.x, abs=0.6) for end, strip in zip(ends, chart.strips[1:], strict=False))


def test_the_heights_of_the_areas_are_the_bytes(gpt2):
    chart, timeline = timeline_chart(gpt2), gpt2.timeline
    top = min(y for layer in chart.layers for _, y in layer.outline)
    per_byte = (chart.area.below - chart.area.above) / chart.area.top / 2**30

    assert chart.area.below - top == pytest.approx(timeline.peak_bytes * per_byte, rel=1e-6)
    assert chart.peak[1] == pytest.approx(top)


def test_a_picture_is_xml_with_its_own_colours(gpt2):
    text = picture(gpt2)
    root = ElementTree.fromstring(text)

    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert root.get("aria-label").endswith(timeline_chart(gpt2).peak_label)


@pytest.mark.parametrize("sizes", [[6, 6, 4, 3, 2, 2, 1], [5.0], [1000, 1, 1]])
def test_a_treemap_fills_its_place_in_proportion(sizes):
    place = Rectangle(0, 0, 600, 400)
    tiles = laid_out(sizes, place)

    assert [tile.width * tile.height / 240_000 for tile in tiles] == pytest.approx(
        [size / sum(sizes) for size in sizes]
    )
    for at, tile in enumerate(tiles):
        assert tile.x >= -1e-9 and tile.y >= -1e-9
        assert tile.x + tile.width <= 600.001 and tile.y + tile.height <= 400.001
        for other in tiles[:at]:
            apart_x = other.x + other.width <= tile.x + 1e-6 or tile.x + tile.width <= other.x + 1e-6
            assert apart_x or other.y + other.height <= tile.y + 1e-6 or tile.y + tile.height <= other.y + 1e-6


def luminance(color):
    def linear(part):
        return part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(part) / 255) for part in color[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def rgb(text):
    return [float(part) for part in re.findall(r"[\d.]+", text)]


@pytest.fixture
def opened(browser, gpt2, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page(gpt2), encoding="utf-8")

    def open_page(viewport, scheme) -> Page:
        shown = browser.new_page(viewport=viewport, color_scheme=scheme)
        shown.goto(file.as_uri())
        pages.append(shown)
        return shown

    pages = []
    yield open_page
    for one in pages:
        one.close()


@pytest.mark.parametrize(("viewport", "scheme"), [(WIDE, "dark"), (PHONE, "light")], ids=["wide", "phone"])
def test_the_page_is_accessible_and_keeps_to_the_screen(opened, viewport, scheme):
    from axe_playwright_python.sync_playwright import Axe

    shown = opened(viewport, scheme)
    found = Axe().run(shown)

    assert found.violations_count == 0, found.generate_report()
    assert shown.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_areas_are_seen_against_the_page_and_parted_by_lines(opened, scheme):
    shown = opened(WIDE, scheme)
    ground = rgb(shown.evaluate("getComputedStyle(document.querySelector('.layer')).stroke"))
    fills = shown.eval_on_selector_all(".layer", "layers => layers.map(layer => getComputedStyle(layer).fill)")

    # 2:1, not 3:1: each area also has a line of the page's colour around it, and its name beside its colour below.
    assert fills and min(contrast(rgb(fill), ground) for fill in fills) > 1.7


def test_paths_are_broken_at_their_dots():
    path = "bert.encoder.layer.*.intermediate.intermediate_act_fn"

    assert at_dots(path, 60) == path
    assert at_dots(path, 25) == "bert.encoder.layer.*.\nintermediate.\nintermediate_act_fn"
    assert at_dots(path, 27) == at_dots(path, 25)
    assert at_dots("layer.*.output.dense", 14) == "layer.*.\noutput.dense"
    assert all(len(line) <= 20 for line in at_dots(path, 20).splitlines())
    assert at_dots(path, 5).replace("\n", "") == path


def test_numbers_of_a_column_end_below_each_other(gpt2):
    lines = shown(gpt2).splitlines()
    start = next(at for at, line in enumerate(lines) if "by kind" in line) + 2
    kinds = lines[start : start + len(rows_of_kinds(gpt2))]

    assert len({line.index("%") for line in kinds}) == 1
