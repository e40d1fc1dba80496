"""A matrix on the terminal, as a page and as a picture."""

import io
import shlex
from xml.etree import ElementTree

import pytest
import typer

import memorymark as mm
from memorymark.cli.main import app
from memorymark.render.console import CleanConsole
from memorymark.render.html import page, picture
from memorymark.render.matrix import level, matrix_view, print_matrix
from memorymark.results.matrix import Matrix, MatrixCell, MatrixRow
from support.html_pages import Reader
from support.lengths import SWEEP


def cells(*sizes):
    return [MatrixCell(gpu=gpu, max_batch_size=size) for gpu, size in zip(("l4", "a100-80gb"), sizes, strict=True)]


def row(changes, options, *sizes, why_not=""):
    recipe = mm.Recipe(**{"optimizer": "sgd", **options})
    return MatrixRow(changes=changes, options=options, recipe=recipe, title=recipe.describe(),
                     cells=cells(*sizes) if sizes else [], why_not=why_not)  # fmt: skip


MATRIX = Matrix(
    request=mm.Request(model="gpt2", seq_len=256, recipe=mm.Recipe(optimizer="sgd")),
    info=SWEEP.plan.info,
    gpus=("l4", "a100-80gb"),
    rows=[
        row((), {}, 0, 3),
        row(("bf16",), {"precision": "bf16"}, 4, 17),
        row(("bf16", "checkpointing"), {"precision": "bf16", "gradient_checkpointing": "full"}, 64, 12_345),
        row(("bf16", "lora"), {"precision": "bf16", "lora": 16}, why_not="it has no linear layers"),
    ],
)


def shown(width):
    text = io.StringIO()
    print_matrix(MATRIX, CleanConsole(file=text, width=width, color_system=None, force_terminal=False))
    return text.getvalue()


@pytest.mark.parametrize("width", [60, 100])
def test_a_terminal_shows_a_line_for_each_gpu_and_a_column_for_each_recipe(width):
    text = shown(width)
    lines = [line.split() for line in text.splitlines()]

    assert max(map(len, text.splitlines())) <= width
    assert ["L4", "-", "4", "64"] in lines
    assert ["A100", "80", "GB", "3", "17", "12.3k"] in lines
    assert "it has no linear layers" in " ".join(text.split())


def test_the_levels_of_cells_part_what_fits_from_what_does_not():
    assert [level(MatrixCell(gpu="l4", max_batch_size=size)) for size in (0, 1, 4, 16, 64)] == [0, 1, 2, 3, 4]


def test_each_cell_has_the_command_that_answers_it():
    command = matrix_view(MATRIX)["rows"][1]["cells"][2]["said"]
    words = shlex.split(command)

    assert words[:3] == ["memorymark", "analyze", "gpt2"]
    analyze = typer.main.get_command(app).commands["analyze"]
    given = analyze.make_context("analyze", words[2:]).params
    wanted = {"gpu": "a100-80gb", "optimizer": "sgd", "precision": "bf16", "gradient_checkpointing": "full"}
    assert {name: given[name] for name in wanted} == wanted
    assert given["seq_len"] == "256"


def test_a_page_is_whole_and_needs_nothing_else():
    read = Reader(page(MATRIX))

    assert read.open == []
    assert read.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert "12.3k" in read.text and "not even one sample" in read.text


def test_a_picture_is_xml_with_a_cell_for_each():
    root = ElementTree.fromstring(picture(MATRIX))
    titles = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 6 and all(title.startswith("memorymark analyze gpt2") for title in titles)


@pytest.mark.parametrize("viewport", [{"width": 1440, "height": 900}, {"width": 390, "height": 844}])
def test_the_page_is_accessible_and_keeps_to_the_screen(browser, tmp_path, viewport):
    from axe_playwright_python.sync_playwright import Axe

    file = tmp_path / "page.html"
    file.write_text(page(MATRIX), encoding="utf-8")
    shown = browser.new_page(viewport=viewport, color_scheme="dark" if viewport["width"] > 500 else "light")
    shown.goto(file.as_uri())
    found = Axe().run(shown)
    width = shown.evaluate("document.documentElement.scrollWidth")
    shown.close()

    assert found.violations_count == 0, found.generate_report()
    assert width <= viewport["width"]


def test_the_notes_say_how_far_off_memory_may_be_but_nothing_of_speeds_that_are_not_shown():
    notes = " ".join(matrix_view(MATRIX)["notes"])

    assert "allocated memory may be off by" in notes
    assert "speed" not in notes
