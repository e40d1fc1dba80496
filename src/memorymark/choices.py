"""Fields with a few values to choose from, and the other names that people know these by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memorymark.errors import UsageError
from memorymark.nearest import did_you_mean, letters, nearest
from memorymark.type_checks import shown


@dataclass(frozen=True)
class Choice:
    """The values of a field. ``synonyms`` are other names for them; case and signs never matter."""

    name: str
    values: tuple[str, ...]
    synonyms: Mapping[str, str] = field(default_factory=dict)

    def understood(self, given: Any) -> Any:
        """The value that is meant, whatever it is called; what means none is given back as it is."""
        text = str(given) if str(given).startswith("torch.") else given  # a type of torch's, such as torch.bfloat16
        if not isinstance(text, str):
            return given
        spelled = letters(text.strip().removeprefix("torch.").removeprefix("optim."))
        return next((value for name, value in self._named.items() if letters(name) == spelled), given)

    def read(self, given: Any) -> str:
        """The same, but what means none of the values is refused, with what was perhaps meant."""
        value = self.understood(given)
        if isinstance(value, str) and value in self.values:
            return value
        near = did_you_mean(nearest(given, self._named)) if isinstance(given, str) else ""
        hint = f": {near}The values are" if near else "; use one of"
        raise UsageError(f"unknown {self.name} {shown(given)}{hint} {', '.join(self.values)}.")

    @property
    def _named(self) -> dict[str, str]:
        return {**self.synonyms, **{value: value for value in self.values}}
