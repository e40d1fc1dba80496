"""Turns suggestions into commands: the command that was typed, with a change."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from memorymark.cli.bare_flags import BARE, is_bare
from memorymark.messages import as_flag
from memorymark.question.flat import OPTIONS
from memorymark.suggestions import Proposal, Suggestion


def suggested_commands(program: Any, arguments: Sequence[str], suggestions: Sequence[Proposal]) -> str:
    """Returns a line for each suggestion that can be typed, with the batch it allows; empty if none can.

    ``program`` is click's command line, which knows the options of each command and which of them take a value.
    """
    changed = [(changed_command(program, arguments, one.change), one) for one in suggestions]
    typed = shlex.join(["memorymark", *arguments])
    lines = [(command, _reach(one)) for command, one in changed if command not in (None, typed)]
    width = max((len(command) for command, _ in lines), default=0)
    if not lines:
        return ""
    heading = "Checked to fit:" if any(reach for _, reach in lines) else "Try:"
    return "\n".join([heading, *(f"  {command:<{width}}  {reach}".rstrip() for command, reach in lines)])


def changed_command(program: Any, arguments: Sequence[str], change: dict[str, Any]) -> str | None:
    """Returns the command with some options changed; ``None``, ``False`` or its default removes an option.

    Returns ``None`` if the command lacks one of the options.
    """
    names, rest, command = _command(program, arguments)
    changed = {name: _parameter(command, name) for name in change}
    if None in changed.values():
        return None
    kept, places = list(names), iter(_of_kind(command, "argument"))
    for parameter, words in _parsed(command, rest):
        place = next(places, None) if parameter is None else parameter
        name = next((name for name, one in changed.items() if one is not None and one is place), None)
        if name is None:
            kept += words
        elif parameter is None:
            kept.append(str(change[name]))
    for name, value in change.items():
        parameter = changed[name]
        if parameter is None or parameter.param_type_name == "argument":
            continue
        flag, usual = as_flag(name), OPTIONS[name].default if name in OPTIONS else None
        if value is True or (flag in BARE and value == BARE[flag].alone):
            kept.append(flag)
        elif value is not None and value is not False and value != usual:
            kept += [flag, str(value)]
    return shlex.join(["memorymark", *kept])


def _reach(suggestion: Proposal) -> str:
    if not isinstance(suggestion, Suggestion):
        return ""
    return ", ".join(filter(None, (f"# up to batch {suggestion.max_batch_size}, predicted", suggestion.conditions)))


def _command(program: Any, arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str], Any]:
    """Returns the words that name a command, the words after them, and the command."""
    names, command = 0, program
    while names < len(arguments) and arguments[names] in getattr(command, "commands", {}):
        command = command.commands[arguments[names]]
        names += 1
    return arguments[:names], arguments[names:], command


def _parsed(command: Any, words: Sequence[str]) -> Iterator[tuple[Any, list[str]]]:
    """Yields each option with its words; a word that belongs to no option comes with ``None``."""
    rest = iter(zip(words, (*words[1:], None), strict=True))
    for word, following in rest:
        if not word.startswith("-"):
            yield None, [word]
            continue
        name, has_value, _ = word.partition("=")
        option = next((one for one in _of_kind(command, "option") if name in (*one.opts, *one.secondary_opts)), None)
        takes_next = option is not None and not (option.is_flag or has_value or is_bare(word, following))
        yield option, [word, *([next(rest, ("", None))[0]] if takes_next else [])]


def _parameter(command: Any, name: str) -> Any:
    """Returns the command's option or argument with this name in the question, or ``None``."""
    return next(
        (
            one
            for one in getattr(command, "params", ())
            if (one.param_type_name == "argument" and one.name == name) or as_flag(name) in one.opts
        ),
        None,
    )


def _of_kind(command: Any, kind: str) -> list[Any]:
    return [one for one in getattr(command, "params", ()) if one.param_type_name == kind]
