"""Notices code that went through torch.compile, however it is called: as a module, a method or a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def refusing_compiled(refusal: Callable[[], Exception]) -> Iterator[None]:
    """Raises the refusal as soon as compiled code is called, which torch would otherwise run uncompiled in here.

    Does nothing if nothing was compiled in this process.
    """
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    original = getattr(frames, "_callback_from_stance", None)  # what every call of compiled code begins with
    if original is None:
        yield
        return

    def refuse(callback: Any) -> Any:
        if callback:  # one that is disabled has none
            raise refusal()
        return original(callback)

    frames._callback_from_stance = refuse
    try:
        yield
    finally:
        frames._callback_from_stance = original
