"""A card to share and a badge for a README."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

import memorymark as mm
from memorymark.cli.report import report
from memorymark.render.card import LEFT, RIGHT, card_view
from memorymark.render.html import badge, card
from support.command_line import run_here
from support.lengths import SWEEP
from support.recorded_analyses import recorded

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def analysis():
    return recorded("bert_fp32")[1]


def said(picture):
    return " ".join("".join(one.itertext()) for one in ElementTree.fromstring(picture).iter(f"{SVG}text"))


def test_a_card_has_the_size_of_previews_and_says_the_answer(analysis):
    text = card(analysis)
    root = ElementTree.fromstring(text)

    assert (root.get("width"), root.get("height")) == ("1200", "630")
    assert "BERT base" in said(text) and "measured" in said(text)
    assert f"{analysis.recommended.batch_size:,}" in said(text) and f"{analysis.max_batch_size:,}" in said(text)
    assert "href" not in text and "<script" not in text


def test_bars_are_as_long_as_the_memory_on_one_axis(analysis):
    bars = {bar["kind"]: bar["width"] for bar in card_view(analysis)["bars"]}
    held = {"today": analysis.current, "recommended": analysis.recommended, "maximum": analysis.maximum}

    for kind, trial in held.items():
        share = analysis.info.held_bytes(trial) / analysis.target_bytes
        assert bars[kind] == pytest.approx(share * (RIGHT - LEFT))
    assert all(bar["whisker"] is None for bar in card_view(analysis)["bars"])  # it was measured


def test_what_is_predicted_has_its_interval_beside_it(analysis):
    name = "peak_reserved_bytes"
    trials = [
        replace(trial, intervals={name: (0.9 * trial.peak_reserved_bytes, 1.1 * trial.peak_reserved_bytes)})
        for trial in analysis.trials
    ]
    bars = card_view(replace(analysis, trials=trials))["bars"]

    for bar in bars:
        low, high = bar["whisker"]
        assert low == pytest.approx(LEFT + 0.9 * bar["width"])
        assert high == pytest.approx(min(LEFT + 1.1 * bar["width"], RIGHT))


def test_a_batch_that_does_not_fit_is_said_to():
    missing = replace(SWEEP.plan, current_batch_size=10**6)
    assert "today: batch 1,000,000 does not fit" in said(card(missing))


def test_a_badge_says_what_was_found_and_how(analysis):
    text = badge(analysis)
    whole = f"BERT base: max batch {analysis.max_batch_size:,} on H200 capped to 21.70 GiB, measured"
    assert whole in said(text)
    assert ElementTree.fromstring(text).get("aria-label") == f"MemoryMark: {whole}"


def test_report_writes_both_and_refuses_what_makes_no_sense(tmp_path):
    source = tmp_path / "analysis.json"
    source.write_text(
        run_here("analyze", "bert", "--small", "--gpu", "a10", "--max-batch", "32", "--json", "-q").stdout
    )
    for name, is_badge in (("card.svg", False), ("badge.svg", True)):
        report(str(source), tmp_path / name, badge=is_badge)

    assert 'width="1200"' in (tmp_path / "card.svg").read_text()
    assert 'height="20"' in (tmp_path / "badge.svg").read_text()
    with pytest.raises(mm.UsageError, match="badge= is a picture"):
        report(str(source), tmp_path / "page.html", badge=True)
