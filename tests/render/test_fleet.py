"""A fleet on the terminal and as a page."""

import io
from dataclasses import replace

import pytest

from memorymark.fleet.ranking import rank
from memorymark.render.console import CleanConsole
from memorymark.render.fleet import print_fleet
from memorymark.render.fleet_files import as_csv, as_metrics, as_page
from memorymark.render.fleet_view import duration
from memorymark.results.fleet import totals
from support.fleet_holds import A100, H100, fleet_of, hold
from support.html_pages import Reader

HOLDS = [
    hold(0.0, 0.0, holder="idle"),
    hold(0.4, 0.4, deviation=0.45, device=H100, holder="waiting"),
    hold(0.97, 0.98, tensor=0.0, device=replace(A100, index="3"), holder="slow"),
    hold(0.95, 0.95, device=replace(A100, index="4"), holder="good"),
    hold(0.0, device=replace(A100, index="5"), holder="young", age=60),
]


def printed(fleet, width=140):
    out = io.StringIO()
    print_fleet(fleet, CleanConsole(file=out, width=width))
    return " ".join(out.getvalue().split())


def test_a_page_is_whole_and_needs_nothing_else():
    read = Reader(as_page(fleet_of(HOLDS)))

    assert read.open == []
    assert read.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert "3 of 5 jobs waste up to" in read.text
    assert "of 2.0 GPU-hours" in read.text
    assert "run memorymark watch" in read.text
    assert "good" not in read.text


def test_commands_stand_out_on_a_page():
    assert "<code>memorymark watch</code>" in as_page(fleet_of(HOLDS))


def test_waste_that_cannot_be_told_is_no_number():
    told = printed(fleet_of(HOLDS))

    assert "3 ? ? slow" in told
    assert "?: monitoring does not show how much is wasted" in told
    assert "?: monitoring" not in printed(fleet_of(HOLDS[:2]))


def test_jobs_that_are_cut_are_counted():
    jobs = rank(HOLDS)
    told = printed(fleet_of(HOLDS, jobs=jobs[:1]))

    assert "Not listed: 2 that waste less, 1 fine, 1 too young to judge." in told
    assert totals(jobs)["wasted_gpu_hours"] > jobs[0].wasted_gpu_hours


def test_what_was_only_sampled_is_told_per_day():
    seconds = fleet_of([hold(0.0, seconds=10.0)], sampled=True, seconds=None, window_seconds=None, sources=("nvml",))
    told = printed(seconds)

    assert "1 of 1 job wastes up to 24.0 GPU-hours, $38.16 a day." in told
    assert "GPU-h a day $ a day" in told
    assert "24.0 GPU-h a day" in Reader(as_page(seconds)).text


@pytest.mark.parametrize(
    ("holds", "said"), [([], "No job holds a GPU."), ([hold(0.95, 0.95)], "No job wastes GPU time.")]
)
def test_a_fleet_without_waste_says_so(holds, said):
    found = fleet_of(holds)

    assert said in printed(found)
    assert said in Reader(as_page(found)).text
    assert len(as_csv(found).splitlines()) == 1 + len(holds)
    assert "memorymark_fleet_wasted_gpu_seconds 0" in as_metrics(found)


def test_a_price_of_ones_own_is_said():
    assert "A GPU costs $2.50/h, as given." in printed(fleet_of(HOLDS, price_per_hour=2.5))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (604_800, "7 d"),
        (86_400, "24 h"),
        (5_400, "90 min"),
        (3_600, "1 h"),
        (120, "2 min"),
        (100, "100 s"),
        (90_100, "1502 min"),
    ],
)
def test_times_are_told_in_whole_units(seconds, said):
    assert duration(seconds) == said
