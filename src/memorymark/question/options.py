"""Options, declared once: a field of a dataclass says everything about the option that sets it.

The command line, Python's keywords, the body of an HTTP call and its schema, the client, the dashboard's form, the
checks and their error messages are all made from these declarations::

    margin: float = option(0.05, "Fraction of the memory to leave free.", title="Margin", minimum=0, below=1)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from memorymark.checks.choices import Choice
from memorymark.checks.nearest import either
from memorymark.checks.types import require_types, settle_types
from memorymark.documents import HELP
from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName, as_flag

OptionType = Literal["flag", "choice", "count", "number", "text", "counts", "names", "prices", "document"]
Group = Literal["model", "sample", "recipe", "target", "question", "usage", "run"]
TYPES: dict[Any, OptionType] = {
    bool: "flag",
    int: "count",
    float: "number",
    str: "text",
    tuple: "counts",
    dict: "document",
    Literal: "choice",
}
KEY = "memorymark.option"


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option. ``name`` is what callers write, ``field`` what the dataclass calls it.

    ``help`` explains it, ``title`` is its label in a form, ``labels`` are those of its choices. ``minimum`` and
    ``maximum`` are inclusive bounds, ``above`` and ``below`` exclusive ones. ``sample_units`` are the units of the
    samples that it applies to, ``needs`` the values of other options that it requires, ``choice_needs`` those that
    single choices require; ``longest`` is the most characters of a text, entries of a list, or bytes of a document;
    ``measured_only`` says that it cannot be predicted. ``rare`` options come last in a form.
    ``flags`` are its flags on the command line, if they differ from the name; ``alone`` is the value that the flag
    without one stands for, which ``True`` means too.
    ``stored`` converts what callers write to the field's value, ``told`` converts it back.
    ``words`` describes a value that is not the default.
    """

    name: str
    field: str
    type: OptionType
    group: Group
    default: Any
    is_optional: bool
    help: str
    title: str
    choices: Choice | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    longest: int | None = None
    pattern: str | None = None
    unit: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    alone: str = ""
    sample_units: tuple[str, ...] = ()
    needs: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    choice_needs: Mapping[str, Mapping[str, tuple[Any, ...]]] = dataclasses.field(default_factory=dict)
    measured_only: bool = False
    rare: bool = False
    over_http_as: str = ""
    stored: Callable[[Any], Any] | None = None
    told: Callable[[Any], Any] | None = None
    words: Callable[[Any], str] | None = None

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return self.flags[0] if self.flags else as_flag(self.name)

    @property
    def http_name(self) -> str:
        """Its name in an HTTP body."""
        return self.over_http_as or self.name

    def value_of(self, owner: Any) -> Any:
        """Returns an object's value as callers write it."""
        value = getattr(owner, self.field)
        return value if self.told is None or value is None else self.told(value)

    def field_value(self, given: Any) -> Any:
        """Converts what a caller wrote to the field's value."""
        return given if self.stored is None or given is None else self.stored(given)

    @property
    def allowed(self) -> list[str] | dict[str, float] | None:
        """What it may be: the choices, or the bounds."""
        if self.choices is not None:
            return list(self.choices.values)
        bounds = {"minimum": self.minimum, "above": self.above, "maximum": self.maximum, "below": self.below}
        return {name: bound for name, bound in bounds.items() if bound is not None} or None

    def check(self, value: Any) -> None:
        """Raises on a number that is out of bounds, or a list that contains one."""
        if isinstance(value, tuple):
            for one in value:
                self.check(one)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and not self._is_within(value):
            raise UsageError(
                Message(
                    "{option} must be {bounds}, not {given:g}.",
                    option=OptionName(self.name),
                    bounds=self._bounds(value),
                    given=value,
                ),
                code="out_of_range",
                field=self.name,
                given=value,
                allowed=self.allowed,
            )

    def _is_within(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )

    def _bounds(self, value: float) -> str:
        """Describes the bounds; names the maximum only if it was exceeded, since nobody comes near it on purpose."""
        end = high = f"below {self.below:g}" if self.below is not None else ""
        if self.maximum is not None and value > self.maximum:
            end = f"{self.maximum:.10g}"
            high = f"at most {end}"
        if self.above is not None:
            return f"a number above {self.above:g}{f' and {high}' if high else ''}"
        low = f"{self.minimum:g}" if self.minimum is not None else ""
        if low and end:
            return f"from {low} to {end}"
        return high or (f"{low} or more" if low else "a number")

    def to_dict(self) -> dict[str, Any]:
        """Returns the option as ``GET /options`` lists it."""
        return {
            "name": self.http_name,
            "group": self.group,
            "type": self.type,
            "default": list(self.default) if isinstance(self.default, tuple) else self.default,
            "is_optional": self.is_optional,
            "choices": list(self.choices.values) if self.choices else None,
            "labels": dict(self.labels),
            "minimum": self.minimum,
            "above": self.above,
            "maximum": self.maximum,
            "below": self.below,
            "longest": self.longest,
            "title": self.title,
            "help": self.help,
            "unit": self.unit,
            "sample_units": list(self.sample_units) or None,
            "needs": {name: [_as_text(value) for value in values] for name, values in self.needs.items()} or None,
            "measured_only": self.measured_only,
            "rare": self.rare,
            "flag": self.flag,
        }


def _as_text(value: Any) -> str:
    """Returns a value as a form has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def option(default: Any, help_text: str, **facts: Any) -> Any:
    """Declares a field as an option; ``called`` is its name if that differs, other facts are as in ``Option``."""
    return dataclasses.field(default=default, metadata={KEY: {"help": help_text, **facts}, HELP: help_text})


def group(name: Group) -> Callable[[type], type]:
    """Sets the group of a form that a dataclass's options belong to."""

    def marked(owner: type) -> type:
        owner.__option_group__ = name  # type: ignore[attr-defined]
        return owner

    return marked


def options_of(owner: Any) -> dict[str, Option]:
    """Returns the options that a dataclass, or the class of an instance, declares, by name."""
    return _declared(owner if isinstance(owner, type) else type(owner))


@cache
def _declared(owner: type) -> dict[str, Option]:
    hints = get_type_hints(owner)
    made = (_option(owner, field, hints[field.name]) for field in dataclasses.fields(owner) if KEY in field.metadata)
    return {one.name: one for one in made}


def _option(owner: type, field: dataclasses.Field[Any], hint: Any) -> Option:
    facts = dict(field.metadata[KEY])
    name = facts.pop("called", field.name)
    told = facts.get("told")
    default = field.default if told is None or field.default is None else told(field.default)
    kinds = [kind for kind in _alternatives(hint) if kind is not NoneType]
    facts = {
        "type": TYPES[get_origin(kinds[0]) or kinds[0]],
        "group": getattr(owner, "__option_group__", "question"),
        "title": name.replace("_", " ").capitalize(),
        "is_optional": NoneType in _alternatives(hint),
        **facts,
    }
    return Option(name=name, field=field.name, default=default, **facts)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Union or hint.__class__.__name__ == "UnionType" else (hint,)


def settle_options(owner: Any) -> None:
    """Converts a frozen dataclass's values to their types, resolves synonyms of choices, and checks bounds."""
    declared = options_of(owner)
    settle_types(owner, called={one.field: one.name for one in declared.values()})
    for one in declared.values():
        value = getattr(owner, one.field)
        if one.choices is not None:
            object.__setattr__(owner, one.field, one.choices.read(value))
        else:
            one.check(value if one.told is None or value is None else one.told(value))
    for one, other, values in _unmet_needs(owner):
        raise UsageError(
            Message(
                "{option:{choice}} and {other} exclude each other; drop one."
                if values == (False,)
                else "{option:{choice}} needs {other} {values}, not {given}; change one of them.",
                option=OptionName(one.name),
                choice=one.value_of(owner) if one.choice_needs else "",
                other=OptionName(other.name),
                values=either(map(str, values)),
                given=other.value_of(owner),
            ),
            code="not_applicable",
            field=one.name,
            given=one.value_of(owner),
        )


def _unmet_needs(owner: Any) -> Iterator[tuple[Option, Option, tuple[Any, ...]]]:
    declared = options_of(owner)
    for one in declared.values():
        if one.value_of(owner) == one.default:
            continue
        for name, values in {**one.needs, **one.choice_needs.get(str(one.value_of(owner)), {})}.items():
            if declared[name].value_of(owner) not in values:
                yield one, declared[name], values


def require_option(owner: type, name: str, given: Any) -> Any:
    """Checks a value given for one option and returns it converted to its type."""
    one = options_of(owner)[name]
    value = require_types({one.field: given}, owner, {one.field: name})[one.field]
    one.check(value)
    return value


def unusual(owner: Any) -> list[str]:
    """Describes the options of an object that do not have their default, in a few words each."""
    declared = [one for one in options_of(owner).values() if one.words is not None]
    values = [(one, one.value_of(owner)) for one in declared]
    return [one.words(value) for one, value in values if one.words is not None and value != one.default]
