"""Counts samples along each of a batch's first dimensions until it is known which of them is the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from memorymark.watch.batches import DIMENSIONS, SeenBatch
from memorymark.watch.statistics import count_up

BatchBasis = Literal["layers", "labels", "leading"]
"""Why a dimension counts as the batch: layers whose layout is known, labels, or only because it is the first."""
# So many batches must agree: a number of boxes may be that of the channels by accident.
ENOUGH_LABELS = 3
# Lengths vary more often than the last batch of an epoch.
LENGTHS_VARY = 2


class BatchSizes:
    """The sizes of a training's batches. ``dimension`` is the batch, for the reason given by ``basis``."""

    def __init__(self) -> None:
        self.dimension = 0
        self.basis: BatchBasis = "leading"
        self.last: SeenBatch | None = None
        self.most_elements = 0
        self._counts: list[Counter[int]] = [Counter() for _ in range(DIMENSIONS)]
        self._by_labels: list[int | None] = []

    def see(self, size: SeenBatch) -> None:
        """A batch of this size goes into the step."""
        self.last = size
        self.most_elements = max(self.most_elements, size.elements)
        self.count(size)

    def count(self, size: SeenBatch) -> None:
        """Counts a batch."""
        for dimension, counts in enumerate(self._counts):
            count_up(counts, size.along(dimension))

    def forget_but_last(self) -> None:
        """Forgets earlier batches but the last."""
        last = self.last
        self.most_elements, self._counts = 0, [Counter() for _ in range(DIMENSIONS)]
        if last is not None:
            self.see(last)

    def see_labels(self, dimension: int | None) -> None:
        """The labels of a batch share this dimension with its inputs; ``None`` if they do not tell."""
        if len(self._by_labels) < ENOUGH_LABELS:
            self._by_labels.append(dimension)

    def decide(self, by_layers: int | None) -> None:
        """Decides which dimension is the batch; the layers know best."""
        agreed = set(self._by_labels) if len(self._by_labels) == ENOUGH_LABELS else set()
        by_labels = agreed.pop() if len(agreed) == 1 else None
        if by_layers is not None:
            self.dimension, self.basis = by_layers, "layers"
        elif by_labels is not None:
            self.dimension, self.basis = by_labels, "labels"

    @property
    def usual(self) -> int | None:
        """The most common size."""
        counts = self._counts[self.dimension]
        return counts.most_common(1)[0][0] if counts else None

    @property
    def is_uncertain(self) -> bool:
        """Tells whether the first dimension looks like a length, and nothing tells that it is one."""
        first, second = self._counts[:2]
        has_second = self.last is not None and len(self.last.shape) > 1
        return self.basis == "leading" and has_second and len(first) > LENGTHS_VARY and len(second) == 1


def samples_of(sizes: Sequence[SeenBatch]) -> Counter[int]:
    """Returns the samples of some batches by dimension."""
    return Counter({dimension: sum(size.along(dimension) for size in sizes) for dimension in range(DIMENSIONS)})
