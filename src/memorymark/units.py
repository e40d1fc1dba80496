"""Units: the code counts in bytes and seconds; people read GiB and dates."""

from __future__ import annotations

from datetime import datetime, timezone
from math import floor, log10

KIB = 2**10
MIB = 2**20
GIB = 2**30
MEGA = 10**6
GIGA = 10**9
TERA = 10**12


def gib(size_bytes: int | float) -> float:
    """Converts bytes to GiB (2^30 bytes)."""
    return size_bytes / GIB


def format_bytes(size_bytes: int | float) -> str:
    """Formats a size: ``21.70 GiB``, or MiB and KiB for sizes that would read as 0.00 GiB."""
    if abs(size_bytes) >= 0.1 * GIB:
        return f"{size_bytes / GIB:,.2f} GiB"
    if abs(size_bytes) >= 0.1 * MIB:
        return f"{size_bytes / MIB:,.1f} MiB"
    return f"{size_bytes / KIB:,.1f} KiB"


def format_usd(usd: float) -> str:
    """Formats dollars without the dollar sign: ``1,234.56``, ``0.0412``, with at least three significant digits."""
    return f"{usd:,.2f}" if usd >= 0.995 or usd == 0 else format_rate(usd)


def format_rate(per_second: float) -> str:
    """Formats a rate with at least three significant digits: ``0.0412``, ``8.30``, ``85.3``, ``12,345``."""
    rounded = float(f"{per_second:.3g}")
    digits = max(2 - floor(log10(abs(rounded))), 0) if rounded else 0
    return f"{per_second:,.{digits}f}"


def format_ratio(ratio: float) -> str:
    """Formats how many times something is something else: ``0.970x``, ``1.64x``, ``23.1x``."""
    return f"{format_rate(ratio)}x"


def format_count(count: int) -> str:
    """Formats a large count: ``109 M``, ``8.03 B``."""
    size, unit = (count / GIGA, "B") if count >= 0.9995 * GIGA else (count / MEGA, "M")
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {unit}"


def iso_time(seconds: float) -> str:
    """Formats seconds since 1970 as an ISO 8601 time in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
