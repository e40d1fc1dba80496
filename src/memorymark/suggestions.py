"""Changes to a question that a caller can apply: likely corrections, and changes that were checked to fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from memorymark.units import format_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

NOTHING_HELPS = "no GPU of the catalog and no change of recipe that was checked makes it fit"


@dataclass(frozen=True)
class Proposal:
    """A change to the question."""

    label: str
    """The change in a few words, for a button."""
    change: dict[str, Any]
    """Options to their new values, by their names in Python; null removes an option."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the proposal in JSON types; ``from_dict`` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Reads what ``to_dict`` wrote; ignores fields that a newer version added."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


@dataclass(frozen=True, kw_only=True)
class Suggestion(Proposal):
    """A change that makes the training fit, checked by prediction."""

    label: str = ""
    recipe: str = ""
    """The change of the recipe in words; empty if it stays the same."""
    gpu_name: str = ""
    """The other GPU; empty if it stays the same."""
    without_cap: bool = False
    """Whether it drops the caller's memory limit."""
    max_batch_size: int
    """The largest batch predicted to train."""
    device_bytes: int
    """What that batch takes of the GPU."""
    total_bytes: int
    """The GPU's memory."""
    host_bytes: int = 0
    """What the largest batch takes of the host's memory; 0 if nothing is offloaded."""
    missed_margin: float | None = None
    """The fraction of the GPU's memory that no batch leaves free; null if one does."""

    def __post_init__(self) -> None:
        both = " on ".join(filter(None, (self.recipe, self.gpu_name)))
        object.__setattr__(self, "label", self.label or both or "no memory cap")

    @property
    def phrase(self) -> str:
        """The change as part of a sentence, with the largest batch it allows."""
        parts = [
            f"with {self.recipe}" if self.recipe else "",
            f"on the {self.gpu_name}" if self.gpu_name else "",
            "without the memory cap" if self.without_cap and not self.gpu_name else "",
        ]
        reach = ", ".join(filter(None, (f"up to batch {self.max_batch_size}", self.conditions)))
        return f"{' '.join(filter(None, parts))} ({reach})"

    @property
    def conditions(self) -> str:
        """Says what it takes of the host's memory, and that it leaves less than the margin free; empty if neither."""
        host = f"with {format_bytes(self.host_bytes)} of the host's memory" if self.host_bytes else ""
        missed = self.missed_margin
        margin = f"with less than the margin of {100 * missed:g} % free" if missed is not None else ""
        return ", ".join(filter(None, (host, margin)))


def meant(option: str, names: Iterable[str]) -> list[Proposal]:
    """Proposes other values for an option."""
    return [Proposal(name, {option: name}) for name in names]


def renamed(given: str, value: Any, names: Iterable[str]) -> list[Proposal]:
    """Proposes other options in place of an unknown one; they take over its value."""
    return [Proposal(name, {given: None, name: value}) for name in names]


def without(option: str, usual: Any = None) -> Proposal:
    """Proposes to drop an option; ``usual`` is the value to reset it to, if it cannot be ``None``."""
    return Proposal(f"without {option.replace('_', ' ')}", {option: usual})


def in_a_sentence(suggestions: Sequence[Suggestion]) -> str:
    """Returns what fits, or that nothing does, as the end of a sentence."""
    if not suggestions:
        return NOTHING_HELPS
    return f"it is predicted to fit {', or '.join(one.phrase for one in suggestions)}"
