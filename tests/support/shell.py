"""Reads the lines of shell that pages show."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import typer
from typer.main import get_command

from memorymark.cli.main import app

OPERATORS = "();&|<>"
# What may stand before the name of a command.
BEFORE = re.compile(r"[A-Za-z_]\w*=.*|uvx|time|exec|sudo|nohup")


@dataclass(frozen=True)
class Shown:
    """A command of a console, and the output that a page shows below it."""

    command: str
    output: str
    line: int


def commands_of(block):
    """The commands of a console block; a backslash continues one on the next line."""
    found = re.split(r"^\$ ((?:.*\\\n)*.*)\n?", block.text, flags=re.MULTILINE)
    line = block.line + 1 + found[0].count("\n")
    for command, output in zip(found[1::2], found[2::2], strict=True):
        yield Shown(command.replace("\\\n", " "), output, line)
        line += command.count("\n") + 1 + output.count("\n")


def words_of(line):
    """The words of a line and the operators between them, without comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=OPERATORS)
    lexer.whitespace_split = True
    return list(lexer)


def programs_in(shell):
    """The words of every program that lines of shell start."""
    for line in shell.replace("\\\n", " ").splitlines():
        program = []
        for word in (*words_of(line), ";"):
            if set(word) <= set(OPERATORS):
                if program:
                    yield program
                program = []
            elif program or not BEFORE.fullmatch(word):
                program.append(word)


def memorymark_commands_in(shell):
    """The arguments of every ``memorymark`` among them."""
    return [words[1:] for words in programs_in(shell) if Path(words[0]).name == "memorymark"]


def _command_of(arguments):
    """The command that these arguments name, its full name, and the arguments left for it."""
    command, name, rest = get_command(app), "memorymark", list(arguments)
    while rest and rest[0] in getattr(command, "commands", {}):
        command, name, rest = command.commands[rest[0]], f"{name} {rest[0]}", rest[1:]
    return command, name, rest


def unknown_options(arguments):
    """The options among the arguments that the command does not have; values may be placeholders, such as N."""
    command, name, rest = _command_of(arguments)
    known = {"-h", "--help"}.union(*(parameter.opts + parameter.secondary_opts for parameter in command.params))
    return [f"{name} {word}" for word in rest if word.startswith("-") and word not in known]


def why_not_parsed(arguments):
    """What the command line has against these arguments, or None; nothing is run."""
    command, name, rest = _command_of(arguments)
    try:
        command.make_context(name, rest)
    except typer.Exit:  # --help and --version
        return None
    except typer.BadParameter.__mro__[2] as error:
        return f"{name}: {error.format_message()}"
    return None
