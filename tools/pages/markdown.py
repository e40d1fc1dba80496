"""Tables in Markdown, and the words for models and recipes in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

MODELS = {"bert": "BERT", "gpt2": "GPT-2", "resnet": "ResNet-50"}


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def paragraph(*parts: str) -> str:
    """Text in lines as long as those of the pages."""
    return fill(" ".join(parts), 124, break_long_words=False, break_on_hyphens=False)


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f} %"
