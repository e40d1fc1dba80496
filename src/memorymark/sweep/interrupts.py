"""Hears every Ctrl-C: Python only prints one that arrives in a finalizer or in the callback of a weak reference."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Whether there was an interrupt."""

    def __init__(self) -> None:
        self._was_heard = False

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Raises as usual, and remembers it."""
        self._was_heard = True
        signal.default_int_handler(number, frame)

    def pass_on(self) -> None:
        """Raises if there was an interrupt that nobody else heard of."""
        if self._was_heard:
            raise KeyboardInterrupt


@contextmanager
def heard_interrupts() -> Iterator[Interrupts]:
    """Listens, unless somebody else does."""
    interrupts = Interrupts()
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, interrupts.hear)
    try:
        yield interrupts
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
