"""Converts the command line parser's errors to usage errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memorymark.checks.nearest import nearest
from memorymark.errors import UsageError
from memorymark.suggestions import renamed


def as_usage_error(error: Any, arguments: Sequence[str]) -> UsageError:
    """Converts an error of click: an unknown option, a missing one, or a value that does not parse."""
    if hasattr(error, "option_name"):
        return _unknown_option(error, arguments)
    parameter = getattr(error, "param", None)
    if parameter is None:
        return UsageError(error.format_message())
    values = (_value(one, arguments) for one in (*parameter.opts, *parameter.secondary_opts))
    return UsageError(
        error.format_message(),
        code="missing" if hasattr(error, "param_type") else "malformed",
        field=_name(parameter),
        given=next(filter(None, values), None),
        allowed=_allowed(parameter),
    )


def _unknown_option(error: Any, arguments: Sequence[str]) -> UsageError:
    options = {flag: one for one in _options(error) for flag in (*one.opts, *one.secondary_opts) if flag[:2] == "--"}
    near = nearest(error.option_name, list(options))
    given, value = error.option_name.lstrip("-").replace("-", "_"), _value(error.option_name, arguments)
    meant = {_name(options[flag]): True if options[flag].is_flag else value for flag in near}
    return UsageError(
        error.format_message(),
        code="unknown_option",
        field=given,
        given=value,
        allowed=[_name(one) for one in _options(error)],
        proposals=[proposal for name, taken in meant.items() for proposal in renamed(given, taken, [name])],
    )


def _options(error: Any) -> list[Any]:
    command = getattr(getattr(error, "ctx", None), "command", None)
    return [one for one in getattr(command, "params", ()) if one.param_type_name == "option"]


def _name(parameter: Any) -> str:
    """Returns the question's name of a parameter; the parser's may differ to avoid a Python keyword."""
    flag = next((one for one in parameter.opts if one.startswith("--")), None)
    return flag.removeprefix("--").replace("-", "_") if flag is not None else str(parameter.name)


def _value(option: str, arguments: Sequence[str]) -> str | None:
    """Returns the value given to an option that the parser does not know, or ``None``."""
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        name, has_value, value = word.partition("=")
        if name == option:
            return value if has_value else following if not following.startswith("-") else None
    return None


def _allowed(parameter: Any) -> Any:
    """Returns the choices or the bounds of a parameter, which older versions of typer keep in its type."""
    kind = getattr(parameter, "type", parameter)
    choices = getattr(kind, "choices", None)
    if choices is not None:
        return list(choices)
    bounds = {"minimum": getattr(kind, "min", None), "maximum": getattr(kind, "max", None)}
    return {name: bound for name, bound in bounds.items() if bound is not None} or None
