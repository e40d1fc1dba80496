"""Shows declared options in the Python reference as what they are: a default and a sentence, not a call."""

from __future__ import annotations

from pydoc import locate
from typing import Any

from griffe import Attribute, Docstring, ExprCall, Extension

from memorymark.question.options import options_of


class DeclaredOptions(Extension):
    """Reads ``name: type = option(default, help, ...)``."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Replaces the call by the default, and takes a missing docstring from the declaration."""
        call = attr.value
        if not isinstance(call, ExprCall) or call.canonical_path != "memorymark.question.options.option":
            return
        owner: Any = locate(attr.parent.path)
        [declared] = [one for one in options_of(owner).values() if one.field == attr.name]
        caption = "" if declared.name == attr.name else f"Set by the option `{declared.name}`: "
        attr.value = call.arguments[0]
        # A field that stores something else than the option's value has a docstring of its own.
        meaning = declared.help if attr.docstring is None else attr.docstring.value
        attr.docstring = Docstring(caption + meaning, parent=attr)
