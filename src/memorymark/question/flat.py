"""Converts between questions and flat options, by the names that callers write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from memorymark.question.options import Option, options_of
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request, name_of_config
from memorymark.question.target import Target
from memorymark.question.usage import Usage

Part = TypeVar("Part", Recipe, Target, Usage)
# In the order in which people read them.
PARTS: tuple[type, ...] = (Request, Recipe, Target, Question, Usage)
OPTIONS: dict[str, Option] = {name: one for part in PARTS for name, one in options_of(part).items()}


def names_of(*parts: type) -> tuple[str, ...]:
    """Returns the names of the options that these parts of a question declare."""
    return tuple(name for part in parts for name in options_of(part))


def fields_of(part: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that the options set in one part; ignores the options of other parts."""
    fields = {}
    for name, one in options_of(part).items():
        if name in given:
            if one.stored is not None and given[name] is not None:
                one.check(given[name])  # before it is converted, so that errors show what the caller wrote
            fields[one.field] = one.field_value(given[name])
    return fields


def make_request(given: Mapping[str, Any]) -> Request:
    """Makes a request from flat options."""
    recipe, target = Recipe(**fields_of(Recipe, given)), Target(**fields_of(Target, given))
    return Request(recipe=recipe, target=target, **fields_of(Request, given))


def make_question(given: Mapping[str, Any], request: Request | None = None) -> Question:
    """Makes a question from flat options; ``request`` replaces the one that the options describe."""
    return Question(
        request=request or make_request(given),
        usage=Usage(**fields_of(Usage, given)),
        **fields_of(Question, given),
    )


def flat(question: Question) -> dict[str, Any]:
    """Returns the options of a question by name."""
    request = question.request
    owners = {Request: request, Recipe: request.recipe, Target: request.target, Usage: question.usage}
    return {name: one.value_of(owners.get(part, question)) for part in PARTS for name, one in options_of(part).items()}


def over_http(question: Question) -> dict[str, Any]:
    """Returns the question as fields of an HTTP body, without those that have their default."""
    request = question.request
    given = {OPTIONS[name].http_name: value for name, value in flat(question).items() if value != OPTIONS[name].default}
    if request.config is not None:  # a local path means nothing on another machine, so the config is sent
        given["model_name"] = request.entry.id
        if request.model == name_of_config(request.config):
            del given["model_name"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
