"""Results that can be printed and shown in notebooks."""

from __future__ import annotations

from typing import Any, Protocol


class Renderer(Protocol):
    """Turns a result into text and HTML."""

    def as_text(self, result: Any) -> str:
        """Returns the report as on a terminal, without colours."""

    def mimebundle(self, result: Any) -> dict[str, str]:
        """Returns the result by MIME type."""


_renderers: list[Renderer] = []


def show_with(renderer: Renderer) -> None:
    """Sets the renderer of results; renderers import results, so results cannot import renderers."""
    _renderers[:] = [renderer]


class Shown:
    """A mixin that lets ``print`` and notebooks show a result."""

    def __str__(self) -> str:
        return _renderers[0].as_text(self) if _renderers else repr(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        return _renderers[0].mimebundle(self) if _renderers else {"text/plain": repr(self)}
