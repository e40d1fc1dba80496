"""Lays a treemap out: rectangles with areas in proportion to their sizes, as square as may be. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rectangle:
    """A place in a picture."""

    x: float
    y: float
    width: float
    height: float


def laid_out(sizes: Sequence[float], place: Rectangle) -> list[Rectangle]:
    """Returns a rectangle for each size, in the order of the sizes, which must fall (squarified treemap)."""
    whole = sum(sizes)
    if not whole:
        return []
    scale = place.width * place.height / whole
    return list(_rows([size * scale for size in sizes], place))


def _rows(areas: Sequence[float], place: Rectangle) -> Iterator[Rectangle]:
    start = 0
    while start < len(areas):
        short = min(place.width, place.height)
        stop = start + 1
        while stop < len(areas) and _worst(areas[start : stop + 1], short) <= _worst(areas[start:stop], short):
            stop += 1
        row = areas[start:stop]
        yield from _row(row, place)
        place = _rest(sum(row), place)
        start = stop


def _worst(row: Sequence[float], short: float) -> float:
    """Returns how far the least square rectangle of a row along the shorter side is from a square."""
    whole = sum(row)
    if not whole or not short:
        return float("inf")
    return max(max(short**2 * area / whole**2, whole**2 / (short**2 * area)) for area in row if area)


def _row(row: Sequence[float], place: Rectangle) -> Iterator[Rectangle]:
    whole, x, y = sum(row), place.x, place.y
    if place.width >= place.height:
        width = whole / place.height if place.height else 0.0
        for area in row:
            height = area / width if width else 0.0
            yield Rectangle(x, y, width, height)
            y += height
    else:
        height = whole / place.width if place.width else 0.0
        for area in row:
            width = area / height if height else 0.0
            yield Rectangle(x, y, width, height)
            x += width


def _rest(taken: float, place: Rectangle) -> Rectangle:
    if place.width >= place.height:
        width = taken / place.height if place.height else 0.0
        return Rectangle(place.x + width, place.y, place.width - width, place.height)
    height = taken / place.width if place.width else 0.0
    return Rectangle(place.x, place.y + height, place.width, place.height - height)
