"""Rejects values of a wrong type with a clear message, before they fail deep inside or pass for something else.

Numbers of numpy and torch are accepted and converted to Python's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from memorymark.checks.text import require_text
from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName

MISFIT = object()
LONGEST_SHOWN = 100
IN_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Callable: "a function",
}


def require_types(
    given: Mapping[str, Any], declared: type, called: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Checks values against the types that a dataclass or a ``TypedDict`` declares for their names.

    ``called`` maps names to the options that set them, if these are called differently.

    Returns the values in Python's own types: a numpy integer as an ``int``. Choices and documents have their own
    checks, which say more, and are only checked for valid text, like all strings.
    """
    settled = dict(given)
    for name, kinds in _declared(declared).items():
        if name not in given:
            continue
        plain = next((value for value in (_as(given[name], kind) for kind in kinds) if value is not MISFIT), MISFIT)
        if plain is MISFIT:
            raise _wrong_type(called.get(name, name), kinds, given[name])
        settled[name] = plain
    for name, value in settled.items():
        require_text(value, name, field=name)
    return settled


def settle_types(instance: Any, called: Mapping[str, str] = MappingProxyType({})) -> None:
    """Checks and converts the fields of a frozen dataclass in place."""
    for name, value in require_types(vars(instance), type(instance), called).items():
        if value is not getattr(instance, name):
            object.__setattr__(instance, name, value)


def whole(value: Any) -> int | None:
    """Returns a whole number of Python, numpy or torch as an ``int``, or ``None``; booleans do not count."""
    if isinstance(value, bool) or _is_foreign_bool(value):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the last two are torch's
        return None


def shown(value: Any) -> str:
    """Returns a value as shown in a message; a long or multi-line one becomes the name of its type."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN and "\n" not in text else f"a {type(value).__name__}"


def _wrong_type(name: str, kinds: tuple[Any, ...], given: Any) -> UsageError:
    allowed = [IN_WORDS.get(kind, f"a {kind.__name__}") for kind in kinds if kind is not NoneType]
    return UsageError(
        Message(
            "{option} must be {words}, not {given}.",
            option=OptionName(name),
            words=" or ".join(allowed),
            given=shown(given),
        ),
        code="wrong_type",
        field=name,
        given=given,
        allowed=allowed,
    )


@cache
def _declared(declared: type) -> dict[str, tuple[Any, ...]]:
    """Returns the types that each name may have, without their type arguments."""
    hints = {name: _alternatives(hint) for name, hint in get_type_hints(declared).items()}
    return {name: tuple(get_origin(one) or one for one in several) for name, several in hints.items()}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _as(value: Any, kind: Any) -> Any:
    """Converts a value to a kind, or returns ``MISFIT``."""
    if kind in (Literal, dict):
        return value
    if isinstance(value, bool) or _is_foreign_bool(value):  # in Python, a bool is an int
        return bool(value) if kind is bool else MISFIT
    if kind is int:
        number = whole(value)
        return MISFIT if number is None else number
    if kind is float and not isinstance(value, (int, float)):
        return float(value) if isinstance(value, Real) or whole(value) is not None else MISFIT
    return value if isinstance(value, (int, float) if kind is float else kind) else MISFIT


def _is_foreign_bool(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in ("bool", "torch.bool") and getattr(value, "ndim", 1) == 0
