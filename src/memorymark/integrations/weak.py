"""A list that keeps nothing alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class WeakList(Generic[Thing]):
    """Things in order, each once, for as long as somebody else holds them."""

    def __init__(self, things: Iterable[Thing] = ()) -> None:
        self._references: dict[int, weakref.ref[Thing]] = {}
        for thing in things:
            self.append(thing)

    def append(self, thing: Thing) -> None:
        """Adds a thing, unless it is there."""
        known = self._references.get(id(thing))
        if known is not None and known() is None:  # what had this identity before is gone, and its place with it
            del self._references[id(thing)]
        self._references.setdefault(id(thing), weakref.ref(thing))

    def __iter__(self) -> Iterator[Thing]:
        for reference in list(self._references.values()):
            if (thing := reference()) is not None:
                yield thing
