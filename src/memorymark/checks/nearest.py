"""Finds the names closest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MOST_NAMED = 3
# How alike two names must be to suggest one for the other, and how much less alike than the best match it may be.
LIKENESS, CLOSE_TO_BEST = 0.6, 0.1


def letters(name: str) -> str:
    """Returns a name in lower case without punctuation, to compare different spellings."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


def nearest(wanted: str, names: Iterable[str] | Mapping[str, str]) -> list[str]:
    """Returns up to three names that look most like ``wanted``.

    A mapping has spellings as its keys and the names to return for them as its values.
    """
    called = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    alike = {key: _likeness(letters(wanted), letters(key)) for key in called}
    best = max(alike.values(), default=0.0)
    near = [key for key, ratio in alike.items() if ratio >= max(LIKENESS, best - CLOSE_TO_BEST)]
    if best == 1.0:  # it differs only in case and punctuation
        near = [key for key in near if alike[key] == 1.0][:1]
    return list(dict.fromkeys(called[key] for key in sorted(near, key=lambda key: -alike[key])))[:MOST_NAMED]


def did_you_mean(near: Iterable[str]) -> str:
    """Returns "did you mean a or b? ", with the trailing space, or an empty string without names."""
    asked = either(near)
    return f"did you mean {asked}? " if asked else ""


def either(names: Iterable[str]) -> str:
    """Joins names as in ``a, b or c``; returns an empty string without names."""
    *first, last = [*names] or [""]
    return f"{', '.join(first)}{' or ' if first else ''}{last}"


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other).ratio()
