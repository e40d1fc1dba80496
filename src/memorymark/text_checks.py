"""Text that is no text, and documents nested without end, are refused before anything has to cope with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memorymark.errors import UsageError

# Configs that people publish have fewer than ten.
MOST_LEVELS = 64


def is_text(value: str) -> bool:
    """Whether every system can store and send it: no half of a character, no NUL."""
    if value.isascii():
        return "\0" not in value
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def require_text(given: Any, name: str) -> None:
    """Refuses a string, or a document of dicts and lists, that holds something else than text, or too many levels."""
    waiting = [(given, 0)]
    while waiting:  # no recursion: how deep it is, is what is to be found out
        value, level = waiting.pop()
        if isinstance(value, str):
            if not is_text(value):
                raise UsageError(f"{name} holds half a character or a NUL, which is no text; leave it out.")
        elif isinstance(value, Mapping | list | tuple):
            if level == MOST_LEVELS:
                raise too_deep(name)
            if isinstance(value, Mapping):
                waiting.extend((key, level + 1) for key in value)
            waiting.extend((part, level + 1) for part in (value.values() if isinstance(value, Mapping) else value))


def too_deep(name: str) -> UsageError:
    """What is said of a document with too many levels."""
    return UsageError(f"{name} is nested more than {MOST_LEVELS} levels deep; make it flatter.")
