"""The segments of torch's caching allocator, as a snapshot shows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Segment:
    """A segment of a snapshot: its address, and its blocks in order, each with its size and whether it is in use.

    ``stream`` is the number of the stream that it belongs to.
    """

    address: int
    small: bool
    blocks: tuple[tuple[int, bool], ...]
    stream: int = 0
