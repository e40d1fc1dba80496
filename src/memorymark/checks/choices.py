"""Options with a fixed set of values, and synonyms for these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memorymark.checks.nearest import did_you_mean, letters, nearest
from memorymark.checks.types import shown
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import meant


@dataclass(frozen=True)
class Choice:
    """The values of an option. ``synonyms`` are other names for them; case and punctuation are ignored."""

    name: str
    values: tuple[str, ...]
    synonyms: Mapping[str, str] = field(default_factory=dict)

    def understood(self, given: Any) -> Any:
        """Returns the value that a name or synonym stands for, or the input if it matches none."""
        # True and False may be synonyms, and torch's objects have names, such as torch.bfloat16.
        text = str(given) if isinstance(given, bool) or str(given).startswith("torch.") else given
        if not isinstance(text, str):
            return given
        spelled = letters(text.strip().removeprefix("torch.").removeprefix("optim."))
        return next((value for name, value in self._named.items() if letters(name) == spelled), given)

    def read(self, given: Any) -> str:
        """Returns the value that a name or synonym stands for; raises with suggestions if it matches none."""
        value = self.understood(given)
        if isinstance(value, str) and value in self.values:
            return value
        near = nearest(given, self._named) if isinstance(given, str) else []
        raise UsageError(
            Message(
                "unknown {name} {given}: {near}The values are {values}."
                if near
                else "unknown {name} {given}; use one of {values}.",
                name=self.name,
                given=shown(given),
                near=did_you_mean(near),
                values=", ".join(self.values),
            ),
            code="unknown_choice",
            field=self.name,
            given=given,
            allowed=list(self.values),
            proposals=meant(self.name, near),
        )

    @property
    def _named(self) -> dict[str, str]:
        return {**self.synonyms, **{value: value for value in self.values}}
