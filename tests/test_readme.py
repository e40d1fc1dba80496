"""The README is short, and what is typed in it is true; its tables are generated."""

import re
from pathlib import Path

from memorymark.catalog import all_gpus, all_models

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len(README.splitlines()) < 150


def test_the_gains_of_the_advice_are_those_that_were_measured():
    gains = dict(
        re.findall(r"^\| (bert|gpt2) \| \d+ s \|.* torch\.compile, batch \d+ \| ([\d.]+x) ", BENCHMARKS, re.MULTILINE)
    )

    assert f"BERT {gains['bert']} and GPT-2 {gains['gpt2']} faster" in README


def test_the_catalog_is_as_large_as_the_readme_says():
    assert f"any of {len(all_gpus())} GPUs" in " ".join(README.split())
    assert f"any of {len(all_models())} models" in README
