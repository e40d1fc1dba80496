"""A list that keeps nothing alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class WeakList(Generic[Thing]):
    """An ordered list of unique items with weak references; an item is gone once it is not held elsewhere."""

    def __init__(self, things: Iterable[Thing] = ()) -> None:
        self._references: dict[int, weakref.ref[Thing]] = {}
        for thing in things:
            self.append(thing)

    def append(self, thing: Thing) -> None:
        """Adds an item unless it is already there."""
        known = self._references.get(id(thing))
        if known is not None and known() is None:  # another object had this id and is gone, so its place is dropped
            del self._references[id(thing)]
        self._references.setdefault(id(thing), weakref.ref(thing))

    def __iter__(self) -> Iterator[Thing]:
        for reference in list(self._references.values()):
            if (thing := reference()) is not None:
                yield thing
