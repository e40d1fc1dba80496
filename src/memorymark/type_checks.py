"""Values of a wrong type are refused in a sentence, before they fail deep inside or pass for something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from memorymark.errors import UsageError
from memorymark.text_checks import require_text

# What counts as a type where it is more, or is called otherwise, than the class itself.
ACCEPTED: dict[Any, type] = {float: Real}
IN_WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Callable: "a function",
}


def require_types(given: Mapping[str, Any], declared: type) -> None:
    """Refuses what is not of the type that a dataclass or a ``TypedDict`` declares under the same name.

    What has a few values to choose from, or is a document, is left to its own check, which says more. All must be text
    where it is a string, or holds any.
    """
    for name, kinds in _declared(declared).items():
        if name in given and not any(_is_a(given[name], kind) for kind in kinds):
            words = " or ".join(IN_WORDS.get(kind, f"a {kind.__name__}") for kind in kinds if kind is not NoneType)
            raise UsageError(f"{name} must be {words}, not {given[name]!r}.")
    for name, value in given.items():
        require_text(value, name)


@cache
def _declared(declared: type) -> dict[str, tuple[Any, ...]]:
    """The types that each name may have, without what they hold."""
    hints = {name: _alternatives(hint) for name, hint in get_type_hints(declared).items()}
    return {name: tuple(get_origin(one) or one for one in several) for name, several in hints.items()}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_a(value: Any, kind: Any) -> bool:
    if kind in (Literal, dict):
        return True
    if isinstance(value, bool):  # which is an int to Python
        return kind is bool
    return isinstance(value, ACCEPTED.get(kind, kind))
