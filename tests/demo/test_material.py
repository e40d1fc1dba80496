"""The material of the demo: it is whole, it is small, and what it says can be done."""

import re
import shlex
import struct
from html import unescape
from pathlib import Path

import pytest
import typer

from make_slides import SOURCE, slides_page
from material.recorded_results import analysis, recording, section
from memorymark.cli.main import app

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "demo"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def slides():
    return slides_page("what a terminal shows")


def commands():
    """Every command that the script, the page about the demo and the slides show."""
    texts = [(DEMO / "demo_script.md").read_text(), (ROOT / "docs" / "demo.md").read_text()]
    slides = unescape(re.sub(r"<[^>]+>", "", (SOURCE / "slides.html.jinja").read_text()))
    shown = [
        line for text in texts for line in re.findall(r"^memorymark .*|(?<=`)memorymark [^`\n]+", text, re.MULTILINE)
    ]
    return sorted({*shown, *re.findall(r"(?<=\$ )memorymark .*", slides)})


@pytest.mark.parametrize("line", commands())
def test_every_command_that_is_shown_parses(line):
    _, name, *arguments = shlex.split(line, comments=True)
    command = typer.main.get_command(app).commands[name]

    assert command.make_context(name, arguments).params
    for file in (argument for argument in arguments if argument.startswith("demo/")):
        assert (ROOT / file).is_file()


def test_the_script_fits_five_minutes():
    times = re.findall(r"^\| (\d):(\d\d) \|", (DEMO / "demo_script.md").read_text(), re.MULTILINE)
    seconds = [60 * int(minutes) + int(rest) for minutes, rest in times]

    assert seconds[0] == 0
    assert seconds == sorted(seconds)
    assert 240 < seconds[-1] < 300


def test_the_slides_show_what_was_recorded(slides):
    bert, predicted = analysis("bert_fp32"), recording("bert-a10-predicted")["result"]
    peers = section("The search against what a user could pick instead")

    assert f"{bert['speedup']:.2f}x" in slides
    assert f"{predicted['speedup']:.2f}x" in slides
    for row in peers.tables[0]:
        if row["search"] != "proof alone":
            assert f"{row['search s']} s" in slides
    assert "Measured on an NVIDIA H200, torch 2.11, 2026-11-16" in slides


def test_the_source_of_the_slides_holds_no_numbers_of_its_own():
    source = (SOURCE / "slides.html.jinja").read_text()
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|<style>.*?</style>|<[^>]+>", "", source, flags=re.DOTALL)

    assert re.findall(r"\d[\d.,]*\s*(?:x\b|%|GiB|samples)", text) == ["1 %"]  # "within 1 %" is what was counted


def test_the_slides_are_few_and_small(slides):
    pages = (DEMO / "slides.pdf").read_bytes()

    assert pages.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) == slides.count("<section>")
    assert 8 <= slides.count("<section>") <= 12
    assert len(pages) < 3 * MEGABYTE


def test_the_video_lasts_one_to_two_minutes_and_is_small():
    video = (DEMO / "demo_video.mp4").read_bytes()
    header = video.index(b"mvhd") + 4
    timescale, duration = struct.unpack(">II", video[header + 12 : header + 20])

    assert video[4:8] == b"ftyp"
    assert 60 <= duration / timescale <= 120
    assert len(video) < 20 * MEGABYTE
