"""Templates of HTML pages and of code to paste. Jinja2 is imported when the first template is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def templates_of(package: str, finalize: Callable[[Any], Any] | None = None) -> Environment:
    """Returns the templates in a package's ``templates`` folder; ``finalize`` converts every value before output.

    Values are escaped as HTML, except in Python code. A variable that the caller does not pass is an error, never empty
    text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(enabled_extensions=(), disabled_extensions=("py.jinja",), default=True),
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )


def python_code(package: str, name: str, **facts: Any) -> str:
    """Renders Python code from the template of that name."""
    return templates_of(package).get_template(f"{name}.py.jinja").render(facts)
