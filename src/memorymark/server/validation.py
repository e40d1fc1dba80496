"""Converts pydantic's validation errors to usage errors."""

from __future__ import annotations

from functools import cache
from inspect import isclass
from typing import Any

from pydantic import BaseModel, ValidationError

from memorymark.checks.nearest import did_you_mean, nearest
from memorymark.checks.options import unknown_option
from memorymark.errors import Code, UsageError
from memorymark.messages import Message
from memorymark.server import bodies
from memorymark.suggestions import meant

# The names of bounds in JSON schemas, and in errors.
BOUNDS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
    "minLength": "shortest",
    "maxLength": "longest",
    "minItems": "fewest",
    "maxItems": "most",
    "pattern": "pattern",
}
CODES: dict[str, Code] = {
    "missing": "missing",
    "literal_error": "unknown_choice",
    "string_pattern_mismatch": "malformed",
    **dict.fromkeys(
        (
            "greater_than",
            "greater_than_equal",
            "less_than",
            "less_than_equal",
            "string_too_long",
            "string_too_short",
            "too_long",
            "too_short",
            "finite_number",
        ),
        "out_of_range",
    ),
}


def as_usage_error(error: ValidationError) -> UsageError | None:
    """Returns the first fault that pydantic found, or ``None`` if the body is not an object at all."""
    fault = error.errors(include_url=False, include_context=False)[0]
    if not fault["loc"]:
        return None
    field, given = str(fault["loc"][0]), None if fault["type"] == "missing" else fault["input"]
    schemas = _fields_of(error.title)
    if fault["type"] == "extra_forbidden":
        listed = "see the documentation at /openapi/swagger"
        return unknown_option(field, given, schemas, listed, what="there is no field {given}")
    allowed = _allowed(schemas.get(field, {}))
    choices = allowed if isinstance(allowed, list) and fault["type"] == "literal_error" else []
    near = nearest(given, choices) if isinstance(given, str) else []
    return UsageError(
        Message(
            "{place}: {near}{said}.",
            place=".".join(str(part) for part in fault["loc"]),
            near=did_you_mean(near),
            said=_begun(fault["msg"], is_sentence=bool(near)),
        ),
        code=CODES.get(fault["type"], "wrong_type"),
        field=field,
        given=given,
        allowed=allowed,
        proposals=meant(field, near),
    )


def _begun(text: str, *, is_sentence: bool) -> str:
    first = text[:1].upper() if is_sentence else text[:1].lower()
    return first + text[1:]


@cache
def _fields_of(title: str) -> dict[str, dict[str, Any]]:
    """Returns the JSON schemas of a body's or a query's fields, by name."""
    models = [one for one in vars(bodies).values() if isclass(one) and issubclass(one, BaseModel)]
    found = next((one for one in models if one.__name__ == title), None)
    properties: dict[str, dict[str, Any]] = found.model_json_schema()["properties"] if found is not None else {}
    return properties


def _allowed(schema: dict[str, Any]) -> Any:
    """Returns the choices or the bounds of a field, or ``None`` if it has none."""
    parts = [schema, *schema.get("anyOf", ())]
    choices = [choice for part in parts for choice in part.get("enum", ())]
    bounds = {called: part[name] for part in parts for name, called in BOUNDS.items() if name in part}
    return choices or bounds or None
