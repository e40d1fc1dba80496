"""The caller's own prices: checked, and read from a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memorymark.catalog import find_gpu
from memorymark.checks.types import shown
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.limits import LARGEST_AMOUNT, MOST_GPUS
from memorymark.question.target import Target
from memorymark.units import MIB

COLUMNS = ("gpu", "usd_per_hour")


def settled_prices(prices: Any, target: Target) -> dict[str, float]:
    """Returns prices by the ids of their GPUs; raises on an unknown GPU and on what is no price."""
    if not isinstance(prices, Mapping) or len(prices) > MOST_GPUS:
        raise _wrong(f"{{prices}} must be dollars per hour by GPU, for {MOST_GPUS} at most, not {{given}}.", prices)
    settled: dict[str, float] = {}
    for name, given in prices.items():
        gpu = _id_of(str(name), target)
        is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not is_number or not 0 <= given <= LARGEST_AMOUNT:
            raise _wrong("{prices}: the price of {gpu_name} must be dollars per hour, not {given}.", given, str(name))
        if gpu in settled:
            raise _wrong("{prices}: there are two prices for {gpu_name}; keep one.", given, str(name))
        settled[gpu] = float(given)
    return settled


def _id_of(name: str, target: Target) -> str:
    own = target.entry if target.gpu_facts is not None else None
    if own is not None and name.strip().lower() in (own.id, own.name.lower()):
        return own.id
    try:
        return find_gpu(name).id
    except UsageError as error:
        raise UsageError(error.message, code=error.code, field="prices", given=name, allowed=error.allowed) from None


def read_prices(path: str) -> dict[str, Any]:
    """Reads prices from a CSV file with the columns gpu and usd_per_hour; numbers that are none stay text."""
    try:
        if Path(path).stat().st_size > MIB:
            raise _wrong("{prices}: {given} is too large for a list of prices.", path)
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise _wrong("{prices}: {given} cannot be read: {why}; name a CSV file.", path, why=reason) from None
    rows = list(csv.DictReader(text.splitlines()))
    if not rows or any(column not in rows[0] for column in COLUMNS):
        raise _wrong("{prices}: {given} must have the columns gpu and usd_per_hour in its first line.", path)
    prices: dict[str, Any] = {}
    for row in rows:
        name = (row["gpu"] or "").strip()
        if name in prices:
            raise _wrong("{prices}: there are two prices for {gpu_name}; keep one.", path, name)
        prices[name] = _number(row["usd_per_hour"])
    return prices


def _number(text: str | None) -> Any:
    try:
        return float(text or "")
    except ValueError:
        return text


def _wrong(template: str, given: Any, gpu_name: str = "", why: str = "") -> UsageError:
    said = given if isinstance(given, str) else shown(given)
    message = Message(template, given=said, gpu_name=gpu_name, why=why)
    return UsageError(message, code="wrong_type", field="prices", given=given)
