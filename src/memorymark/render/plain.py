"""Text of others, such as the name of a model, without what would steer a terminal or turn a line around.

Each renderer cleans at one place: the console, the page, the plain lines.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# The controls of ASCII and Latin-1 but for the newline, separators of lines, and what changes the direction of text.
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text without controls; newlines stay."""
    return STEERING.sub("", text)


def one_line(text: str) -> str:
    """The same, on one line."""
    return clean(re.sub(r"[\s\u2028\u2029]+", " ", text))


def say(text: str, *, err: bool = False, color: str | None = None) -> None:
    """Writes one line of plain text."""
    typer.secho(one_line(text), err=err, fg=color)


def escape_html(text: str) -> str:
    """The text as a part of a page."""
    return html.escape(clean(text))


class CleanConsole(Console):
    """A console that prints no controls but its own; ``:name:`` stays what it is, for names have colons."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, piece by piece."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)
