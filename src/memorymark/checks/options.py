"""The error for unknown options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memorymark.checks.nearest import did_you_mean, nearest
from memorymark.checks.types import shown
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import renamed


def unknown_option(
    given: str, value: Any, known: Iterable[str], why: str, *, what: str = "{given} is not an option here"
) -> UsageError:
    """Returns the error for an option that is not among those known, with suggestions.

    ``value`` is what it was set to; suggested options take it over. ``why`` says why the option does not exist, or
    where the options are listed.
    """
    names = list(known)
    near = [name for name in nearest(given, names) if name != given]
    why = why[:1].upper() + why[1:] if near else why
    return UsageError(
        Message(what + ": {near}{why}.", given=shown(given), near=did_you_mean(near), why=why),
        code="unknown_option",
        field=given,
        given=value,
        allowed=names,
        proposals=renamed(given, value, near),
    )
