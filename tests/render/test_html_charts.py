"""The charts and figures of the HTML report."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from memorymark.render.html import fragment
from memorymark.render.html_charts import Area, Label, apart, memory_chart, round_ticks, throughput_chart
from memorymark.results.trial import Failure, Trial
from memorymark.units import GIB, format_bytes
from support.html_pages import Reader
from support.recorded_analyses import recorded

RESULT = recorded("bert_fp32")[1]


def extents(labels):
    """From where to where labels reach."""
    return [(label.place - 3.5 * len(label.text), label.place + 3.5 * len(label.text)) for label in labels]


@pytest.mark.parametrize("chart", [memory_chart, throughput_chart])
@pytest.mark.parametrize("sizes", [range(1, 60), [1, 2, 4, 1000, 1001, 1002, 65536], [7]])
def test_labels_below_a_chart_never_touch(chart, sizes):
    timed = [replace(RESULT.maximum, batch_size=size) for size in sizes]
    result = replace(RESULT, trials=timed, max_batch_size=max(sizes), current_batch_size=min(sizes))

    places = extents(chart(result).frame.below)

    assert places
    assert all(one[1] < next_one[0] for one, next_one in pairwise(places))


def test_the_last_label_stays():
    assert apart([Label(0.0, "1"), Label(3.0, "2"), Label(5.0, "3")]) == [Label(5.0, "3")]


@pytest.mark.parametrize(("top", "wanted"), [(23.8, [0, 5, 10, 15, 20]), (418, [0, 100, 200, 300, 400]), (0.9, None)])
def test_ticks_are_round(top, wanted):
    found = round_ticks(top)

    assert 4 <= len(found) <= 7
    assert wanted is None or found == wanted


@pytest.mark.parametrize(("top", "highest"), [(0.9, "0.8"), (23.8, "20"), (82_346, "80,000"), (4_000_000, "4,000,000")])
def test_numbers_beside_a_chart_are_written_out_and_have_room(top, highest):
    area = Area(top)

    assert area.across[-1].text == highest
    assert area.left >= 7 * max(len(label.text) for label in area.across)


def test_what_does_not_fit_stands_above_the_line_of_all_there_is():
    failed = Trial(
        batch_size=RESULT.max_batch_size + 1,
        fits=False,
        device_bytes=RESULT.target_bytes // 2,
        failure=Failure("memory", "no", 3 * GIB, GIB),
    )
    chart = memory_chart(replace(RESULT, trials=[*RESULT.trials, failed]))

    failing = [piece for piece in chart.pieces if not piece.fits]
    assert [piece.kind for piece in failing] == ["memory"]
    assert failing[0].y < chart.limit_y
    assert all(piece.y >= chart.limit_y for piece in chart.pieces if piece.fits)


def test_the_shapes_of_the_charts_are_in_the_report():
    read, memory, speed = Reader(fragment(RESULT)), memory_chart(RESULT), throughput_chart(RESULT)
    drawn = [value for name, value in read.attributes if name in ("width", "r")]

    assert len(drawn) == len(memory.pieces) + len(speed.dots)
    assert [dot.kind for dot in speed.dots if dot.kind] == ["today", "recommended", "maximum"]
    assert all(label.text in read.text for label in (*memory.frame.below, *speed.frame.area.across))


def test_used_and_wasted_are_of_one_memory():
    text = Reader(fragment(RESULT)).text
    held = RESULT.info.held_bytes(RESULT.current)
    wasted = 100 * (1 - held / RESULT.target_bytes)

    assert f"{format_bytes(held)} of {format_bytes(RESULT.target_bytes)}, {wasted:.1f} % wasted" in text


def test_the_recommended_batch_has_a_bar_of_its_own():
    rows = re.findall(r"<tr>.*?</tr>", fragment(RESULT), re.DOTALL)
    own = next(row for row in rows if "<b>recommended</b>" in row)

    assert RESULT.recommended.batch_size < RESULT.max_batch_size
    assert f"batch {RESULT.recommended.batch_size}" in own
    assert '<div class="bar"><i class="recommended"' in own


def test_memory_that_is_only_allocated_is_called_so():
    text = Reader(fragment(RESULT)).text

    assert "GPU memory of it allocated" in text or "reserved of it allocated" in text
    assert "Memory is " in text
