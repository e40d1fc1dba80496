"""Removes control characters from untrusted text, such as model names: they could steer a terminal or reverse text.

Each output cleans in one place: the console, the page, the table, the plain lines.
"""

from __future__ import annotations

import re

# ASCII and Latin-1 controls except the newline, Unicode line separators, and marks that change the text direction.
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Returns the text without control characters; newlines stay."""
    return STEERING.sub("", text)


def one_line(text: str) -> str:
    """Returns the text without control characters, on one line."""
    return clean(re.sub(r"\s+", " ", text))
