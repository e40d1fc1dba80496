"""Notices code that went through torch.compile, however it is called: as a module, a method or a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Refusal = Callable[[], Exception]

# The refusals in force, the newest last. They may end in any order, since several probes may be open at once.
_refusals: list[Refusal] = []


@contextmanager
def refusing_compiled(refusal: Refusal) -> Iterator[None]:
    """Raises the refusal as soon as compiled code is called, which torch would otherwise run uncompiled in here.

    Does nothing if nothing was compiled in this process.
    """
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    original = getattr(frames, "_callback_from_stance", None)  # what every call of compiled code begins with
    if original is None:
        yield
        return
    if not _refusals:
        frames._callback_from_stance = _refusing(original)
    _refusals.append(refusal)
    try:
        yield
    finally:
        _refusals.remove(refusal)
        if not _refusals:
            frames._callback_from_stance = frames._callback_from_stance.original


def _refusing(original: Callable[[Any], Any]) -> Any:
    def refuse(callback: Any) -> Any:
        if callback:  # one that is disabled has none
            raise _refusals[-1]()
        return original(callback)

    found: Any = refuse
    found.original = original
    return found
