"""Rejects invalid text and deeply nested documents before other code has to handle them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memorymark.errors import UsageError
from memorymark.messages import Message

# Published configs have fewer than ten.
MOST_LEVELS = 64


def is_text(value: str) -> bool:
    """Whether every system can store and send the text: no lone surrogates, no NUL."""
    if value.isascii():
        return "\0" not in value
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def require_text(given: Any, name: str, field: str = "") -> None:
    """Raises if a string, or a document of dicts and lists, contains invalid text or is nested too deeply.

    ``name`` is what the message calls it, ``field`` the option that holds it, if any.
    """
    waiting = [(given, 0)]
    while waiting:  # not recursive, since the document may be nested too deeply for that
        value, level = waiting.pop()
        if isinstance(value, str):
            if not is_text(value):
                raise UsageError(
                    Message("{name} contains a lone surrogate or a NUL, which is not text; remove it.", name=name),
                    code="malformed",
                    field=field,
                )
        elif isinstance(value, Mapping | list | tuple):
            if level == MOST_LEVELS:
                raise too_deep(name, field)
            if isinstance(value, Mapping):
                waiting.extend((key, level + 1) for key in value)
            waiting.extend((part, level + 1) for part in (value.values() if isinstance(value, Mapping) else value))


def too_deep(name: str, field: str = "") -> UsageError:
    """Returns the error for a document that is nested too deeply."""
    return UsageError(
        Message("{name} is nested more than {most} levels deep; make it flatter.", name=name, most=MOST_LEVELS),
        code="malformed",
        field=field,
    )
