"""Results that show themselves, printed or in a notebook."""

from __future__ import annotations

from typing import Any


class Shown:
    """Gives a result the representations that ``print`` and notebooks ask for.

    It is the one way from a result to a renderer, because these know nothing but the result.
    """

    def __str__(self) -> str:
        from memorymark.render.notebook import as_text

        return as_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        from memorymark.render.notebook import mimebundle

        return mimebundle(self)
