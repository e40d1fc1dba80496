"""Keeps Python from searching all objects for garbage during a trace."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# How many collections of the middle generation come before a full one.
NEVER = 2**30


@contextmanager
def no_full_collections() -> Iterator[None]:
    """Leaves old objects alone: a trace makes a million that stay, and garbage only among the young ones."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
