"""The axes of a grid: what varies, where it was written, and every combination."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from memorymark.question.flat import OPTIONS

# Kinds of answers, not of trainings: a grid holds analyses. A config, or a GPU of one's own, is given as a path.
NOT_OF_A_CASE = ("config", "seq_lens", "advise", "all_gpus", "compare_gpus", "gpu_facts", "try_compile")
VARYING = tuple(name for name in OPTIONS if name not in NOT_OF_A_CASE)
# An axis whose entries each set several options, and what the whole grid may say besides.
RECIPE, MEASURE = "recipe", "measure"
# Stands for every GPU of the catalog.
ALL = "all"


@dataclass(frozen=True)
class Given:
    """A value of an option, and the line it was written in; 0 for the command line."""

    value: Any
    line: int

    def __hash__(self) -> int:
        return hash((self.line, repr(self.value)))


@dataclass(frozen=True)
class Axis:
    """What varies together: each entry sets one option, or several that belong together."""

    name: str
    line: int
    entries: tuple[dict[str, Given], ...]


@dataclass(frozen=True)
class Axes:
    """All axes of a grid; with ``measure``, GPUs are those to measure on, not to predict for."""

    axes: tuple[Axis, ...]
    measure: bool = False

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return prod(len(axis.entries) for axis in self.axes)

    def combinations(self) -> Iterator[dict[str, Given]]:
        """Yields every combination, the last axis varying fastest."""
        for entries in product(*(axis.entries for axis in self.axes)):
            yield {name: given for entry in entries for name, given in entry.items()}

    def with_axes(self, others: Sequence[Axis]) -> Axes:
        """Returns these axes with others in place of those of the same name."""
        named = {axis.name: axis for axis in (*self.axes, *others)}
        return Axes(tuple(named.values()), self.measure)
