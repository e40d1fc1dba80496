"""Suggestions as commands: the command that was typed, with a change made."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from memorymark.suggestion import Suggestion


def suggested_commands(arguments: Sequence[str], suggestions: Sequence[Suggestion]) -> str:
    """A line for each suggestion: what to type, and how far that carries."""
    typed = [changed_command(arguments, one.change) for one in suggestions]
    width = max(map(len, typed), default=0)
    lines = [
        f"  {command:<{width}}  # up to batch {one.max_batch_size}, predicted"
        for command, one in zip(typed, suggestions, strict=True)
    ]
    return "\n".join(["Checked to fit:", *lines])


def changed_command(arguments: Sequence[str], change: dict[str, Any]) -> str:
    """The command with some options set anew; ``None`` and ``False`` leave an option out."""
    options = {f"--{name.replace('_', '-')}": value for name, value in change.items()}
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, given, _ = argument.partition("=")
        if name not in options:
            kept.append(argument)
        elif not given and not isinstance(options[name], bool):
            next(rest, None)  # its value
    for option, value in options.items():
        if value is True:
            kept.append(option)
        elif value is not None and value is not False:
            kept += [option, str(value)]
    return shlex.join(["memorymark", *kept])
