"""Bytes inside, GiB for people."""

from __future__ import annotations

KIB = 2**10
MIB = 2**20
GIB = 2**30
GIGA = 10**9
TERA = 10**12


def gib(size_bytes: int | float) -> float:
    """Bytes as GiB (2^30 bytes)."""
    return size_bytes / GIB


def format_bytes(size_bytes: int | float) -> str:
    """A size for people: ``21.70 GiB``, or MiB and KiB for what would read as 0.00 GiB."""
    if abs(size_bytes) >= 0.1 * GIB:
        return f"{size_bytes / GIB:,.2f} GiB"
    if abs(size_bytes) >= 0.1 * MIB:
        return f"{size_bytes / MIB:,.1f} MiB"
    return f"{size_bytes / KIB:,.1f} KiB"
