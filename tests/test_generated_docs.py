"""The figures and tables of the documentation are what was recorded."""

import shutil
from pathlib import Path

import pytest

from generate_docs import BLOCKS, files, outdated
from pages.figures import FIGURES

ROOT = Path(__file__).parents[1]


@pytest.fixture
def copy(tmp_path):
    """The pages and figures, to be spoiled."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.png"))
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_figures_and_tables_are_what_was_recorded():
    assert outdated() == []


def test_a_figure_or_a_table_that_was_edited_by_hand_is_found(copy):
    page, figure = copy / "docs" / "comparison.md", copy / "docs" / "images" / "speed-by-batch.svg"
    page.write_text(page.read_text().replace("266 in 1.4 s", "266 in 0.4 s"))
    figure.unlink()

    assert sorted(outdated(copy)) == [page, figure]

    for path, text in files(copy).items():
        path.write_text(text)
    assert outdated(copy) == []


def test_everything_that_is_generated_is_in_a_page():
    pages = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))

    assert [name for name in BLOCKS if f"<!-- begin: {name} -->" not in pages] == []
    assert [name for name in FIGURES if f"<!-- begin: figure-{name} -->" not in pages] == []


def test_a_block_is_named_the_same_at_its_begin_and_its_end():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = page.read_text()
        begins, ends = (
            [line.split()[2] for line in text.splitlines() if line.startswith(f"<!-- {word}: ")]
            for word in ("begin", "end")
        )
        assert begins == ends, page.name


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_states_its_finding_for_those_who_cannot_see_it(name):
    chart = FIGURES[name]()

    assert any(character.isdigit() for character in chart.finding)
    assert chart.finding in (ROOT / "docs" / "images" / f"{name}.svg").read_text()
