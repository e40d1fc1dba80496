"""Results that show themselves in a notebook."""

from __future__ import annotations

from typing import Any


class Shown:
    """Gives a result the representation that notebooks ask for.

    It is the one way from a result to a renderer, because a notebook knows nothing but the result.
    """

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002 - IPython's
        from memorymark.render.notebook import mimebundle

        return mimebundle(self)
