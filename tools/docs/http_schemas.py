"""JSON schemas in words: the type of a field, and the table of an object's fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

# Where the fields of an object are explained, if not in the schema.
EXPLAINED = {
    "Advice": "../numbers.md#json-of-an-advice",
    "Analysis": "../numbers.md#json-of-an-analysis",
    "Breakdown": "../numbers.md#breakdown",
    "Comparison": "../numbers.md#json-of-a-comparison",
    "Error": "../service.md#errors",
    "EventView": "../service.md#events",
    "Health": "../service.md#get-health",
    "JobView": "../service.md#get-jobsjob_id",
    "OptionView": "../service.md#get-options",
    "SweepView": "../service.md#get-sweeps-and-get-sweepssweep_id",
    "Trial": "../numbers.md#json-of-a-trial",
}
BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
NO_BOUND = 2**31 - 1  # stands for no limit of its own


def link_to(reference: str) -> str:
    """Returns a link to the object that a ``$ref`` names."""
    name = reference.rpartition("/")[2]
    return f"[{name}](#{name.lower()})"


def type_of(schema: dict[str, Any]) -> str:
    """Returns the type of a field in words, with links to objects."""
    if "$ref" in schema:
        return link_to(schema["$ref"])
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(type_of(option) for option in options))
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        return ", ".join(_code(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}" if schema.get("items") else "list"
    return schema.get("type", "any") + _bounds(schema)


def described(schema: dict[str, Any]) -> str:
    """Returns the description, fit for a cell of a table."""
    text = re.sub(r"\s+", " ", schema.get("description", "")).strip()
    return text.replace("|", "\\|")


def fields_table(name: str, schema: dict[str, Any]) -> str:
    """Returns the table of an object's fields, and where they are explained."""
    parts = [f"[What the fields mean]({EXPLAINED[name]})"] if name in EXPLAINED else []
    if properties := schema.get("properties"):
        parts.append("\n".join(_rows(properties, set(schema.get("required", ())))))
    return "\n\n".join(parts)


def _rows(properties: dict[str, dict[str, Any]], required: set[str]) -> Iterator[str]:
    is_given = any(name not in required for name in properties)
    is_explained = any(described(one) for one in properties.values())
    columns = ["field", "type", *["default"] * is_given, *["meaning"] * is_explained]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for name, one in properties.items():
        default = "" if name in required else _code(one.get("default"))
        cells = [f"`{name}`", type_of(one), *[default] * is_given, *[described(one)] * is_explained]
        yield f"| {' | '.join(cells)} |"


def _code(value: Any) -> str:
    return f"`{json.dumps(value)}`"


def _bounds(schema: dict[str, Any]) -> str:
    told = [f"{words} {schema[key]:g}" for key, words in BOUNDS.items() if schema.get(key, NO_BOUND) != NO_BOUND]
    return f", {', '.join(told)}" if told else ""
