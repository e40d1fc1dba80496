"""Shows declared options in the Python reference as what they are: a default and a sentence, not a call."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Docstring, ExprCall, Extension


class DeclaredOptions(Extension):
    """Reads ``name: type = option(default, help, ...)``."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Takes the default and the help out of the call."""
        call = attr.value
        if isinstance(call, ExprCall) and call.canonical_path == "memorymark.question.options.option":
            default, help_text = call.arguments[:2]
            attr.value = default
            attr.docstring = attr.docstring or Docstring(_joined(str(help_text)), parent=attr)


def _joined(literal: str) -> str:
    """Returns the text of a string literal, formatted ones included, without its quotes."""
    return literal.removeprefix("f")[1:-1]
