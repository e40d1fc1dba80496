"""The names that may have been meant by one that is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MOST_NAMED = 3
# How alike two names must be for the one to be meant by the other, and how much less than the most alike one.
LIKENESS, CLOSE_TO_BEST = 0.6, 0.1


def letters(name: str) -> str:
    """A name without case and signs: what is left of it however it is spelled."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


def nearest(wanted: str, names: Iterable[str] | Mapping[str, str]) -> list[str]:
    """The up to three names that look most like ``wanted``; none if none looks like it.

    A mapping has other spellings as its keys and what to call them as its values.
    """
    called = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    alike = {key: _likeness(letters(wanted), letters(key)) for key in called}
    best = max(alike.values(), default=0.0)
    near = [key for key, ratio in alike.items() if ratio >= max(LIKENESS, best - CLOSE_TO_BEST)]
    if best == 1.0:  # it differs in signs only
        near = [key for key in near if alike[key] == 1.0][:1]
    return list(dict.fromkeys(called[key] for key in sorted(near, key=lambda key: -alike[key])))[:MOST_NAMED]


def did_you_mean(near: Iterable[str]) -> str:
    """A question that names what is near, with a space after it; empty if nothing is."""
    *first, last = [*near] or [""]
    return f"did you mean {', '.join(first)}{' or ' if first else ''}{last}? " if last else ""


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other).ratio()
