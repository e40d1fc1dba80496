"""A list that keeps nothing alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class WeakList(Generic[Thing]):
    """Things in order, each once, for as long as somebody else holds them."""

    def __init__(self, things: Iterable[Thing] = ()) -> None:
        self._references: list[weakref.ref[Thing]] = []
        for thing in things:
            self.append(thing)

    def append(self, thing: Thing) -> None:
        """Adds a thing, unless it is there."""
        if all(thing is not known for known in self):
            self._references.append(weakref.ref(thing))

    def __iter__(self) -> Iterator[Thing]:
        return iter([thing for reference in self._references if (thing := reference()) is not None])
