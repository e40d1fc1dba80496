"""A sweep as a table, a page and CSV."""

import csv
import io
import re

from memorymark.render.console import CleanConsole
from memorymark.render.grid import about_contest, grid_csv, print_grid
from memorymark.render.html import page
from memorymark.render.sweep_progress import left_words
from support.grids import case, grid, unanswered

GRID = grid(
    case(1, 400.0, 8.0, off=0.1),
    case(2, 200.0, 9.0, off=0.1, gpu_name="NVIDIA <i>L4</i>"),
    case(3, 50.0, 0.5, off=0.1),
    unanswered(4, "does_not_fit", "it does not fit."),
    unanswered(5, "worker_lost", "the worker was lost."),
)


def printed(result):
    out = io.StringIO()
    print_grid(result, CleanConsole(file=out, width=160))
    return out.getvalue()


def test_the_table_has_every_case_and_says_which_are_the_best():
    said = printed(GRID)
    rows = {row.split("recipe ")[1][0]: row for row in said.splitlines() if "recipe " in row and "est: " not in row}

    assert "5 cases, 1 do not fit, 1 failed" in said
    assert "fastest, on the front" in rows["1"]
    assert "cheapest, on the front" in rows["3"]
    assert "front" not in rows["2"]
    assert "it does not fit." in rows["4"]
    assert said.index("recipe 1") < said.index("recipe 2") < said.index("recipe 3")


def test_several_that_may_be_the_best_are_all_named():
    (group,) = grid(case(1, 100.0, 1.0, off=0.3), case(2, 120.0, 1.15, off=0.3)).groups

    assert about_contest(group) == [
        "Fastest: A10 with recipe 2 or A10 with recipe 1, within the uncertainty.",
        "Cheapest: A10 with recipe 2 or A10 with recipe 1, within the uncertainty.",
    ]


def test_the_page_stands_alone_and_shows_text_as_text():
    shown = page(GRID)

    assert "<script" not in shown
    assert not re.search(r"""(src|href)=["']|url\(|https?://(?!www\.w3\.org)""", shown)
    assert "color-scheme: light dark" in shown
    assert "&lt;i&gt;L4&lt;/i&gt;" in shown
    assert "<i>L4" not in shown
    assert shown.count("<circle") == 3
    assert "the worker was lost." in shown


def test_a_group_with_one_price_has_no_chart():
    assert "<svg" not in page(grid(case(1, 400.0, 8.0), case(2, 200.0)))


def test_the_csv_has_a_row_for_each_case():
    rows = list(csv.DictReader(io.StringIO(grid_csv(GRID))))

    assert [row["number"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert (rows[0]["samples_per_second_low"], rows[0]["marks"]) == ("360.0", "fastest, on the front")
    assert [row["error_code"] for row in rows] == ["", "", "", "does_not_fit", "worker_lost"]
    assert [row["fits"] for row in rows] == ["true", "true", "true", "false", "false"]


def test_a_remaining_time_is_said_as_people_would():
    assert [left_words(seconds) for seconds in (0.2, 42, 900, 20_000)] == ["1 s", "42 s", "15 min", "5.56 h"]


def test_batch_sizes_have_separators_and_end_below_each_other():
    lines = printed(grid(case(1, 400.0, 8.0, max_batch_size=1578), case(2, 200.0, 9.0, max_batch_size=64))).splitlines()
    large, small = (next(line for line in lines if f"recipe {number} " in line) for number in (1, 2))

    assert large.index("1,578") + 5 == small.index("64") + 2
