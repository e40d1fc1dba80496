"""What is wrong with a sweep, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memorymark.documents import Document
from memorymark.errors import UsageError
from memorymark.messages import Dialect, Message
from memorymark.sweep.axes import Axes


@dataclass(frozen=True, order=True)
class Mistake(Document):
    """One mistake: its line, 0 for the command line, and a sentence that says what to do."""

    line: int
    """The line of the file; 0 for the command line."""
    error: str
    """What is wrong and what to do, in a sentence."""
    field: str = ""
    """The option that it is about."""


class SweepRefusedError(UsageError):
    """A sweep with mistakes, of which nothing was run; ``mistakes`` are all of them, in order.

    ``readable`` is what could be read, so that what is wrong with its values can be told, too.
    """

    def __init__(self, source: str, mistakes: Iterable[Mistake], *, readable: Axes | None = None) -> None:
        self.readable = readable
        self.mistakes = sorted(set(mistakes))
        count = len(self.mistakes)
        self.headline = f"{source} has {count} mistake{'' if count == 1 else 's'}, so nothing was run:"
        said = " ".join(self.lines)
        super().__init__(
            Message("{headline} {said}", headline=self.headline, said=said),
            code="malformed",
            field="file",
            given=source,
        )

    @property
    def lines(self) -> list[str]:
        """Every mistake in a sentence that begins with its line."""
        return [f"line {one.line}: {one.error}" if one.line else one.error for one in self.mistakes]

    def to_dict(self, dialect: Dialect = "python", *, with_detail: bool = False) -> dict[str, Any]:
        """Returns the error in JSON types, with every mistake."""
        mistakes = [one.to_dict() for one in self.mistakes]
        return {**super().to_dict(dialect, with_detail=with_detail), "mistakes": mistakes}
