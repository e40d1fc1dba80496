"""Bytes inside, GiB for people."""

from __future__ import annotations

from math import floor, log10

KIB = 2**10
MIB = 2**20
GIB = 2**30
MEGA = 10**6
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


def format_usd(usd: float) -> str:
    """Dollars without their sign: ``1,234.56``, or two digits of what would read as 0.00."""
    return f"{usd:,.2f}" if usd >= 0.0995 or usd == 0 else f"{usd:.2g}"


def format_rate(per_second: float) -> str:
    """A rate for people, in three digits or more: ``0.0412``, ``8.30``, ``85.3``, ``12,345``."""
    rounded = float(f"{per_second:.3g}")
    digits = max(2 - floor(log10(abs(rounded))), 0) if rounded else 0
    return f"{per_second:,.{digits}f}"


def format_count(count: int) -> str:
    """A large number for people: ``109 M``, ``8.03 B``."""
    size, unit = (count / GIGA, "B") if count >= 0.9995 * GIGA else (count / MEGA, "M")
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {unit}"
