"""One recorded step of a user's training: its memory requests in order. Pure, with a JSON form."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any

from memorymark.devices.allocations import Owner, Phase, Trace, peak_breakdown
from memorymark.results.trial import Breakdown


@dataclass(frozen=True)
class StepRecording:
    """The events from the first forward pass of one step to that of the next, so that what outlives a step is included.

    ``before`` holds the blocks alive at the start, in order of address. ``owners_before`` maps those blocks to their
    owners at the end of the last backward pass; ``owners_made`` does so for later blocks, by the number of their event.
    ``parameters`` counts the trained tensors by their number of elements. ``item_bytes`` is the size of their elements,
    ``cast_bytes`` the size after autocast, if that is on. ``kept_outputs`` lists the model's outputs that the script
    holds although the backward pass does not need them: the event that made each, and where its forward pass ended.
    """

    batch_size: int
    before: dict[int, int]
    events: list[tuple[int, int]]
    marks: list[tuple[Phase, int]]
    owners_before: dict[int, Owner] = field(default_factory=dict)
    owners_made: dict[int, Owner] = field(default_factory=dict)
    parameters: dict[int, int] = field(default_factory=dict)
    item_bytes: int = 4
    cast_bytes: int | None = None
    scratch_limit_bytes: int | None = None
    kept_outputs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def peak_allocated_bytes(self) -> int:
        """The most that was allocated during the step."""
        return max(accumulate((size for _, size in self.events), initial=sum(self.before.values())))

    def breakdown(self, peak_allocated_bytes: int) -> Breakdown:
        """Returns the breakdown of this step's peak."""
        before: dict[Hashable, int] = {key: size for key, size in self.before.items()}  # noqa: C416 - a wider key
        trace = Trace(before, list(self.events), list(self.marks))
        owners: dict[Hashable, Owner] = {key: owner for key, owner in self.owners_before.items()}  # noqa: C416 - likewise
        owners |= {self.events[index][0]: owner for index, owner in self.owners_made.items()}
        return peak_breakdown(trace, owners, peak_allocated_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the recording as JSON types, without copying: the script is waiting. JSON makes number keys text."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> StepRecording:
        """Reads what ``to_dict`` returned, even after a round trip through JSON."""
        numbered = ("before", "owners_before", "owners_made", "parameters")
        read = {name: {int(key): value for key, value in document[name].items()} for name in numbered}
        pairs = {
            name: [(first, second) for first, second in document[name]] for name in ("events", "marks", "kept_outputs")
        }
        return cls(**{**document, **read, **pairs})
