"""Writes files that a command was asked for."""

from __future__ import annotations

from pathlib import Path

from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName


def write_output(path: Path, text: str, option: str) -> None:
    """Writes a file that an option names; raises an error that says why it cannot."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            Message(
                "{file} cannot be written: {why}; name another file with {option}.",
                file=path,
                why=error.strerror,
                option=OptionName(option),
            ),
            code="not_writable",
            field=option,
            given=path,
        ) from None
