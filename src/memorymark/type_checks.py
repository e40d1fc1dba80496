"""Values of a wrong type are refused in a sentence, before they fail deep inside or pass for something else.

What counts as a number to numpy or torch is one here too, and becomes Python's own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from memorymark.errors import UsageError
from memorymark.text_checks import require_text

MISFIT = object()
LONGEST_SHOWN = 100
IN_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Callable: "a function",
}


def require_types(given: Mapping[str, Any], declared: type) -> dict[str, Any]:
    """Refuses what is not of the type that a dataclass or a ``TypedDict`` declares under the same name.

    Gives the values as Python's own: a numpy integer as an ``int``. What has a few values to choose from, or is a
    document, is left to its own check, which says more. All must be text where it is a string, or holds any.
    """
    settled = dict(given)
    for name, kinds in _declared(declared).items():
        if name not in given:
            continue
        plain = next((value for value in (_as(given[name], kind) for kind in kinds) if value is not MISFIT), MISFIT)
        if plain is MISFIT:
            words = " or ".join(IN_WORDS.get(kind, f"a {kind.__name__}") for kind in kinds if kind is not NoneType)
            raise UsageError(f"{name} must be {words}, not {shown(given[name])}.")
        settled[name] = plain
    for name, value in settled.items():
        require_text(value, name)
    return settled


def settle_types(instance: Any) -> None:
    """The same for the fields of a frozen dataclass, in place."""
    for name, value in require_types(vars(instance), type(instance)).items():
        if value is not getattr(instance, name):
            object.__setattr__(instance, name, value)


def whole(value: Any) -> int | None:
    """The whole number that a value is, to Python, numpy or torch; ``None`` if it is none. True is no number."""
    if isinstance(value, bool) or _is_foreign_bool(value):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the last two are torch's
        return None


def shown(value: Any) -> str:
    """A value for a sentence; of what is long, or takes several lines, only what it is."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN and "\n" not in text else f"a {type(value).__name__}"


@cache
def _declared(declared: type) -> dict[str, tuple[Any, ...]]:
    """The types that each name may have, without what they hold."""
    hints = {name: _alternatives(hint) for name, hint in get_type_hints(declared).items()}
    return {name: tuple(get_origin(one) or one for one in several) for name, several in hints.items()}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _as(value: Any, kind: Any) -> Any:
    """The value as one of a kind, or that it is none."""
    if kind in (Literal, dict):
        return value
    if isinstance(value, bool) or _is_foreign_bool(value):  # which is an int to Python
        return bool(value) if kind is bool else MISFIT
    if kind is int:
        number = whole(value)
        return MISFIT if number is None else number
    if kind is float and not isinstance(value, (int, float)):
        return float(value) if isinstance(value, Real) or whole(value) is not None else MISFIT
    return value if isinstance(value, (int, float) if kind is float else kind) else MISFIT


def _is_foreign_bool(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in ("bool", "torch.bool") and getattr(value, "ndim", 1) == 0
