"""Messages that name options the way each reader writes them: on the command line, in Python, over HTTP, in a file.

``Message("{margin} must be below 1, not {given:g}.", given=1.5)`` says ``--margin`` on the command line, ``margin=`` in
Python and ``margin`` over HTTP and in a sweep's file. A placeholder without a value of that name is an option;
``{gpu:{wanted}}`` is an option with a value, ``{compile:True}`` a flag that is set. ``{serve.allow_code}`` is an option
of ``memorymark serve``, written the same for everybody; ``{list.models}`` says where all models are listed. A value may
be an ``OptionName``, for templates that serve several options, or another message; ``{reason:clause}`` drops that
message's full stop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Literal

Dialect = Literal["command_line", "python", "http", "file"]

# Options whose names differ between dialects; the model is positional in commands and calls.
OTHER_NAMES: dict[Dialect, dict[str, str]] = {
    "command_line": {"model": "MODEL", "seq_lens": "--seq-len", "compare_gpus": "--gpu", "gpu_facts": "--gpu"},
    "python": {"model": "model", "seq_lens": "seq_len=", "compare_gpus": "gpu=", "gpu_facts": "gpu="},
    "http": {"model": "model_name"},
}
# Messages also come from other processes, so a format spec must not be able to ask for megabytes of padding.
LONGEST_SPEC = 4
LONGEST_GIVEN = 200


@dataclass(frozen=True, init=False)
class Message:
    """A sentence as data: a template with placeholders, and their values."""

    template: str
    values: dict[str, Any] = field(default_factory=dict)

    def __init__(self, template: str, /, **values: Any) -> None:
        object.__setattr__(self, "template", template)
        object.__setattr__(self, "values", values)

    def said_in(self, dialect: Dialect) -> str:
        """Renders the sentence in a dialect."""
        parts = Formatter().parse(self.template)
        return "".join(
            literal + ("" if name is None else self._said(name, spec or "", conversion, dialect))
            for literal, name, spec, conversion in parts
        )

    def _said(self, name: str, spec: str, conversion: str | None, dialect: Dialect) -> str:
        """Renders one placeholder."""
        spec = Message(spec, **self.values).said_in(dialect) if "{" in spec else spec
        if name in self.values:
            return _value_in(self.values[name], spec, conversion, dialect)
        group, _, rest = name.partition(".")
        if rest and group == "serve":
            return as_flag(rest)
        if rest and group == "list":
            return f"GET /{rest}" if dialect == "http" else f"`memorymark {rest}`"
        return option_in(name, dialect, spec)

    def to_dict(self) -> dict[str, Any]:
        """Returns the message in JSON types; ``from_dict`` reads it back."""
        return {"template": self.template, "values": {name: _to_json(value) for name, value in self.values.items()}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Message:
        """Reads the message that ``to_dict`` wrote."""
        return cls(data["template"], **{name: _from_json(value) for name, value in data["values"].items()})


@dataclass(frozen=True)
class OptionName:
    """An option as a value of a message, for templates that serve several options."""

    name: str


def verbatim(text: str) -> Message:
    """Makes a message of text without placeholders; braces in it stay as they are."""
    return Message("{text}", text=text)


def as_message(text: str | Message) -> Message:
    """Returns a message as it is, and text as a message."""
    return verbatim(text) if isinstance(text, str) else text


def as_flag(name: str) -> str:
    """Returns an option's flag on the command line."""
    return f"--{name.replace('_', '-')}"


def option_in(name: str, dialect: Dialect, value: str = "") -> str:
    """Returns an option, and its value if given, as a reader writes it: ``--gpu a10``, ``gpu="a10"``, ``gpu a10``."""
    is_flag = value in ("True", "False")
    if dialect in ("http", "file"):
        called = OTHER_NAMES.get(dialect, {}).get(name, name)
        return f"{called} {value.lower() if is_flag else value}".rstrip()
    if dialect == "command_line":
        called = OTHER_NAMES["command_line"].get(name) or as_flag(name)
        return called if is_flag else f"{called} {value}".rstrip()
    called = OTHER_NAMES["python"].get(name) or f"{name}="
    return called + (value if not value or is_flag or _is_number(value) else f'"{value}"')


def brief(value: Any) -> Any:
    """Converts a value to JSON types and shortens it; a long document becomes the name of its type."""
    told = plain(value)
    if isinstance(told, str):
        return told[:LONGEST_GIVEN]
    return (
        told if not isinstance(told, (dict, list)) or len(str(told)) <= LONGEST_GIVEN else f"a {type(value).__name__}"
    )


def plain(value: Any) -> Any:
    """Converts a value to JSON types; what JSON cannot hold becomes text."""
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= 64 else f"a number of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part) for part in value]
    return str(value)


def _value_in(value: Any, spec: str, conversion: str | None, dialect: Dialect) -> str:
    if isinstance(value, Message):
        said = value.said_in(dialect)
        return said.rstrip(".") if spec == "clause" else said
    if isinstance(value, OptionName):
        return option_in(value.name, dialect, spec)
    if conversion == "r":
        return repr(value)
    try:
        return format(value, spec[:LONGEST_SPEC])
    except (TypeError, ValueError):  # NaN crosses processes as text, which no number format takes
        return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _to_json(value: Any) -> Any:
    if isinstance(value, Message):
        return {"message": value.to_dict()}
    if isinstance(value, OptionName):
        return {"option": value.name}
    is_plain = (
        value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    )
    return value if is_plain else str(value)


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return OptionName(str(value["option"])) if "option" in value else Message.from_dict(value["message"])
    return value
