"""The README is short, and its figures are those of the benchmarks and of the catalog."""

import re
from pathlib import Path

from memorymark.catalog import all_gpus, all_models

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
SEARCHES = ("MemoryMark", "Accelerate", "Lightning power", "Lightning binsearch")


def rows_below(text, heading):
    """The cells of the rows of the first table after a text."""
    table = text[text.index(heading) :].partition("|---")[2].partition("\n\n")[0]
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in table.splitlines()[1:]]


def recorded_searches():
    """What each search found and how long it took, as docs/benchmarks.md has it: rows leave out a repeated model."""
    found, case = {}, ""
    for model, recipe, search, batch, _, _, seconds, *_ in rows_below(BENCHMARKS, "## The search against"):
        case = f"{model} {recipe}" if model else case
        found[case, search] = f"{batch} in {float(seconds):.1f} s"
    return found


def test_the_readme_is_short():
    assert len(README.splitlines()) < 150


def test_the_comparison_is_the_one_that_was_measured():
    recorded = recorded_searches()
    shown = {
        (case, search): value
        for case, *values in rows_below(README, "## How it compares")
        for search, value in zip(SEARCHES, [re.sub(r"\*", "", value).strip() for value in values], strict=True)
    }

    assert len(shown) == 20
    assert shown == {key: value for key, value in recorded.items() if key[1] in SEARCHES}


def test_the_errors_of_the_prediction_are_those_of_the_benchmarks():
    table = {(kind, number): cells for kind, number, *cells in rows_below(BENCHMARKS, "## The prediction against")}
    allocated, reserved = table["known", "peak allocated"], table["known", "peak reserved"]
    largest, time = table["known", "largest batch"], table["known", "step time, batch 16 and up"]
    held_back = table["held back", "step time, batch 16 and up"]

    def percent(text, digits):
        return f"{float(text.removesuffix(' %')):.{digits}f} %"

    said = " ".join(README.split())
    assert {allocated[1], reserved[1]} == {"0.00 %"}
    assert f"is 0.00 % (the worst of allocated memory {percent(allocated[3], 1)})" in said
    assert f"largest batch {percent(largest[1], 1)} and its worst {percent(largest[3], 1)}" in said
    assert f"step time {percent(time[1], 0)}, or {percent(held_back[1], 0)} for workloads" in said


def test_the_gains_of_the_advice_are_those_that_were_measured():
    gains = dict(
        re.findall(r"^\| (bert|gpt2) \| \d+ s \|.* torch\.compile, batch \d+ \| ([\d.]+x) ", BENCHMARKS, re.MULTILINE)
    )

    assert f"BERT {gains['bert']} and GPT-2 {gains['gpt2']} faster" in README


def test_the_catalog_is_as_large_as_the_readme_says():
    assert f"any of {len(all_gpus())} GPUs" in " ".join(README.split())
    assert f"any of {len(all_models())} models" in README
