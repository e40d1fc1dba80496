"""The charts and figures of the HTML report."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from memorymark.render.html import fragment
from memorymark.render.html_charts import apart, memory_chart, round_ticks, throughput_chart
from memorymark.trial import Failure, Trial
from memorymark.units import GIB, format_bytes
from test_html import Reader
from test_recorded_analyses import recorded

RESULT = recorded("bert_fp32")[1]


def ticks(chart):
    """Where the labels below a chart begin and end."""
    found = re.findall(r'<text class="tick" x="([\d.]+)"[^>]*>(\d+)</text>', chart)
    return [(float(x) - 3.5 * len(text), float(x) + 3.5 * len(text)) for x, text in found]


@pytest.mark.parametrize("chart", [memory_chart, throughput_chart])
@pytest.mark.parametrize("sizes", [range(1, 60), [1, 2, 4, 1000, 1001, 1002, 65536], [7]])
def test_labels_below_a_chart_never_touch(chart, sizes):
    timed = [replace(RESULT.maximum, batch_size=size) for size in sizes]
    result = replace(RESULT, trials=timed, max_batch_size=max(sizes), current_batch_size=min(sizes))

    places = ticks(chart(result))

    assert places
    assert all(one[1] < next_one[0] for one, next_one in pairwise(places))


def test_the_last_label_stays():
    assert apart([(0.0, "1"), (3.0, "2"), (5.0, "3")]) == [(5.0, "3")]


@pytest.mark.parametrize(("top", "wanted"), [(23.8, [0, 5, 10, 15, 20]), (418, [0, 100, 200, 300, 400]), (0.9, None)])
def test_ticks_are_round(top, wanted):
    found = round_ticks(top)

    assert 4 <= len(found) <= 7
    assert wanted is None or found == wanted


def test_what_does_not_fit_stands_above_the_line_of_all_there_is():
    failed = Trial(
        batch_size=RESULT.max_batch_size + 1,
        fits=False,
        device_bytes=RESULT.target_bytes // 2,
        failure=Failure("memory", "no", 3 * GIB, GIB),
    )
    chart = memory_chart(replace(RESULT, trials=[*RESULT.trials, failed]))

    limit = float(re.search(r'class="limit" x1="\d+" x2="\d+" y1="([\d.]+)"', chart)[1])
    columns = re.findall(r'<rect x="[\d.]+" y="([\d.]+)"[^>]*opacity="([\d.]+)"', chart)
    tops = {float(y) for y, opacity in columns if opacity == "0.4"}
    assert len(tops) == 1
    assert max(tops) < limit
    assert all(float(y) >= limit - 0.1 for y, opacity in columns if opacity == "1")


def test_used_and_wasted_are_of_one_memory():
    text = Reader(fragment(RESULT)).text
    held = RESULT.info.held_bytes(RESULT.current)
    wasted = 100 * (1 - held / RESULT.target_bytes)

    assert f"{format_bytes(held)} of {format_bytes(RESULT.target_bytes)}, {wasted:.1f} % wasted" in text


def test_the_recommended_batch_has_a_bar_of_its_own():
    rows = fragment(RESULT)

    assert RESULT.recommended.batch_size < RESULT.max_batch_size
    assert f'<b>recommended</b></td><td>batch {RESULT.recommended.batch_size}</td><td><div class="bar">' in rows


def test_memory_that_is_only_allocated_is_called_so():
    text = Reader(fragment(RESULT)).text

    assert "GPU memory of it allocated" in text or "reserved of it allocated" in text
    assert "Memory is " in text
