"""Options whose flag may come without a value: ``--gradient-checkpointing`` alone means ``full``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typer.core import TyperCommand

from memorymark.question.flat import OPTIONS

BARE = {one.flag: one for one in OPTIONS.values() if one.alone}


class Command(TyperCommand):
    """A command that gives bare flags their value before it parses them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words of the command line."""
        return super().parse_args(ctx, list(_spelled_out(args)))


def is_bare(flag: str, following: str | None) -> bool:
    """Tells whether a flag needs no value and the word after it is not one."""
    one = BARE.get(flag)
    if one is None or one.choices is None:
        return False
    return following is None or one.choices.understood(following) not in one.choices.values


def _spelled_out(words: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else None
        yield f"{word}={BARE[word].alone}" if is_bare(word, following) else word
