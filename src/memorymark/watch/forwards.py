"""The forward passes of one step, by the module that the script called."""

from __future__ import annotations

from collections import Counter

from memorymark.watch.batches import SeenBatch

MOST_MICRO_BATCHES = 1024


class Forwards:
    """Counts the batches of a step without a data loader.

    If several modules take turns, as in a GAN, the one that is called least often counts. Several forward passes for
    one backward pass, as in a siamese network, are one batch.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._sizes: dict[int, list[SeenBatch]] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, module: int, size: SeenBatch | None) -> None:
        """A module begins its forward pass on a batch of this size."""
        self._counts[module] += 1
        sizes = self._sizes.setdefault(module, [])
        if size is not None and len(sizes) < MOST_MICRO_BATCHES:
            sizes.append(size)

    def is_first(self, module: int) -> bool:
        """Tells whether this module began the step."""
        return module == next(iter(self._counts), None)

    def batches(self, backwards: int) -> int:
        """Returns how many batches went into the step; backward passes are 0 if none was seen."""
        least = min(self._counts.values(), default=0)
        return min(least, backwards) if backwards else least

    def sizes(self, backwards: int) -> list[SeenBatch]:
        """Returns the sizes of these batches."""
        known = [module for module in self._counts if self._sizes[module]]
        if not known:
            return []
        least = min(known, key=self._counts.__getitem__)
        return self._sizes[least][: self.batches(backwards)]
