"""Options as flags of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memorymark.messages import as_flag, option_in
from memorymark.question.flat import OPTIONS, flat
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request

# Named apart in a command.
ELSEWHERE = ("model", "gpu", "compare_gpus", "all_gpus", "config", "gpu_facts")


def flags(options: Mapping[str, Any]) -> str:
    """Returns the flags that set some options; what has its default needs none."""
    said = []
    for name, value in options.items():
        option = OPTIONS[name]
        if value in (option.default, False, None):
            continue
        is_bare = value is True or (option.alone and value == option.alone)
        said.append(as_flag(name) if is_bare else option_in(name, "command_line", str(value)))
    return " ".join(said)


def flags_of(request: Request, recipe: Recipe) -> str:
    """Returns the flags of a request that is trained with another recipe."""
    asked = flat(Question(request=replace(request, recipe=recipe)))
    return flags({name: value for name, value in asked.items() if name not in ELSEWHERE})
