"""The renderer behind ``print`` and notebooks, which imports Rich only when a result is shown."""

from __future__ import annotations

from typing import Any


class OnDemand:
    """Renders for ``print`` and for notebooks."""

    def as_text(self, result: Any) -> str:
        """Returns the report as on a terminal, without colours."""
        from memorymark.render.notebook import as_text

        return as_text(result)

    def mimebundle(self, result: Any) -> dict[str, str]:
        """Returns the result by MIME type."""
        from memorymark.render.notebook import mimebundle

        return mimebundle(result)
