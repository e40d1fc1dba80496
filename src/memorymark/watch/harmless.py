"""Keeps errors of the watching away from the script."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Method = TypeVar("Method", bound=Callable[..., None])


class Watcher(Protocol):
    """What watches a script until an error inside ends the watching."""

    active: bool

    def give_up(self, error: Exception) -> None:
        """Leaves the script alone from here on."""


def harmless(method: Method) -> Method:
    """Wraps a watcher's method so that its errors never reach the script."""

    @functools.wraps(method)
    def guarded(self: Watcher, *args: Any, **kwargs: Any) -> None:
        if not self.active:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.give_up(error)

    guarded._torchdynamo_disable = True  # type: ignore[attr-defined] # never compiled
    return guarded  # type: ignore[return-value]
