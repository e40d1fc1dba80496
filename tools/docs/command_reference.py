"""The command reference: the help of every command, as the command line prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from memorymark.cli.main import app

WIDTH = 100


def command_reference() -> str:
    """Returns the page's Markdown: one section for each command."""
    return "\n\n".join(f"## {name}\n\n```text\n{text}\n```" for name, text in _helps(get_command(app), "memorymark"))


def _helps(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """Yields the name and the help of a command and of all below it."""
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH, "color": False, "resilient_parsing": True}
    context = command.make_context(name if parent is None else name.split()[-1], [], parent=parent, **settings)
    yield name, command.get_help(context)
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below, f"{name} {below.name}", context)
