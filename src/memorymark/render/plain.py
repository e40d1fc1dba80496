"""Text of others, such as the name of a model, without what would steer a terminal or turn a line around.

Each renderer cleans at one place: the console, the page, the table, the plain lines.
"""

from __future__ import annotations

import html
import re

# The controls of ASCII and Latin-1 but for the newline, separators of lines, and what changes the direction of text.
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text without controls; newlines stay."""
    return STEERING.sub("", text)


def one_line(text: str) -> str:
    """The same, on one line."""
    return clean(re.sub(r"\s+", " ", text))


def escape_html(text: str) -> str:
    """The text as a part of a page."""
    return html.escape(clean(text))
