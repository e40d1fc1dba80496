"""A change to a question under which the training was predicted to fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

NOTHING_HELPS = "no GPU of the catalog and no change of recipe that was checked makes it fit"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One way to fit, checked by prediction.

    ``change`` is what to ask for instead: options by the names that Python and HTTP have for them. ``recipe`` and
    ``gpu_name`` say the same in words, empty where that part stays as it is; ``without_cap`` drops the caller's limit.
    ``max_batch_size`` is the largest batch that is predicted to train, ``device_bytes`` what the GPU holds then, of
    its ``total_bytes``.
    """

    change: dict[str, Any]
    recipe: str = ""
    gpu_name: str = ""
    without_cap: bool = False
    max_batch_size: int
    device_bytes: int
    total_bytes: int

    @property
    def label(self) -> str:
        """The change in a few words, to stand on a button."""
        if self.recipe and self.gpu_name:
            return f"{self.recipe} on {self.gpu_name}"
        return self.recipe or self.gpu_name or "no memory cap"

    @property
    def phrase(self) -> str:
        """The change as a part of a sentence, and how far it carries."""
        parts = [
            f"with {self.recipe}" if self.recipe else "",
            f"on the {self.gpu_name}" if self.gpu_name else "",
            "without the memory cap" if self.without_cap and not self.gpu_name else "",
        ]
        return f"{' '.join(filter(None, parts))} (up to batch {self.max_batch_size})"

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as JSON types; ``from_dict`` reads it back."""
        return {"label": self.label, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Suggestion:
        """The suggestion that ``to_dict`` wrote."""
        return cls(**{name: value for name, value in data.items() if name != "label"})


def in_a_sentence(suggestions: Sequence[Suggestion]) -> str:
    """What fits, to end a sentence with; plainly so where nothing does."""
    if not suggestions:
        return NOTHING_HELPS
    return f"it is predicted to fit {', or '.join(one.phrase for one in suggestions)}"
