"""Learns which data sets feed the training and which only its evaluation."""

from __future__ import annotations

from collections import Counter
from typing import Any

KEPT_FEEDS = 64


class Feeds:
    """Learns from the order of batches and updates.

    A data set that gave the last batch before an update feeds the training, and so does one that gives a batch before
    most updates. Data sets are identified by id, because scripts may make new loaders each epoch; none is kept alive.
    """

    def __init__(self) -> None:
        self._given: list[int] = []
        self._counts: Counter[int] = Counter()
        self._updates = 0
        self._training: dict[int, None] = {}

    def gave(self, loader: Any) -> None:
        """A loader has given a batch."""
        feed = _feed_of(loader)
        if feed not in self._given:
            self._given.append(feed)
        elif self._given[-1] != feed:
            self._given.remove(feed)
            self._given.append(feed)

    def updated(self) -> None:
        """An optimizer step has ended."""
        self._updates += 1
        for feed in self._given:
            if feed in self._counts or len(self._counts) < KEPT_FEEDS:
                self._counts[feed] += 1
            if feed == self._given[-1] or 2 * self._counts[feed] > self._updates:
                self._training.pop(feed, None)
                self._training[feed] = None
        if len(self._training) > KEPT_FEEDS:
            del self._training[next(iter(self._training))]
        self._given = []

    def is_foreign(self, loader: Any) -> bool:
        """Tells whether a loader is known not to feed the training."""
        return bool(self._training) and _feed_of(loader) not in self._training


def _feed_of(loader: Any) -> int:
    return id(getattr(loader, "_dataset", loader))
