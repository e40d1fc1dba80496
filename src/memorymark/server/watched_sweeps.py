"""Sweeps as their watchers see them; they run in other processes, and the history is how one hears of them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from memorymark.history.listed_sweep import ListedSweep, SweepCase, SweepView
from memorymark.history.sweeps import Sweeps
from memorymark.results.grid import Grid

# Sweeps whose cases are kept in memory, so that a watcher who asks again costs only what is new.
MOST_KEPT = 4


class WatchedSweeps:
    """Reads each case once, however often watchers ask."""

    def __init__(self, sweeps: Sweeps) -> None:
        self._sweeps = sweeps
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, float], _Cases] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept in memory."""
        return len(self._kept)

    def view(self, sweep: ListedSweep, *, after: int, limit: int) -> SweepView:
        """Returns a sweep with at most so many of the cases that changed after a change."""
        with self._lock:
            known = self._known(sweep)
            # A watcher may know more changes than there are: those of a history that has since been replaced.
            changed = known.after(after if after <= known.change else 0)
            sent = changed[:limit]
            upto = sent[-1][0] if sent else known.change
            is_last = bool(sent) and len(sent) == len(changed)
            groups = tuple(known.grid(sweep).groups) if is_last else None
        cases = tuple(one for _, one in sent)
        return SweepView(listed=sweep, cases=cases, upto=upto, more=len(sent) < len(changed), groups=groups)

    def grid(self, sweep: ListedSweep) -> Grid:
        """Returns what is known of a sweep as its result."""
        with self._lock:
            return self._known(sweep).grid(sweep)

    def _known(self, sweep: ListedSweep) -> _Cases:
        run = sweep.id, sweep.started_at  # a history that is restored from a backup may be at an earlier change
        known = self._kept.setdefault(run, _Cases())
        self._kept.move_to_end(run)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        if known.change < sweep.change:
            known.add(self._sweeps.cases(sweep.id, after=known.change))
        return known


class _Cases:
    """The cases of a sweep by their last change."""

    def __init__(self) -> None:
        self.change = 0
        self._cases: dict[int, tuple[int, SweepCase]] = {}

    def add(self, changed: list[tuple[int, SweepCase]]) -> None:
        """Adds cases that changed, in the order in which they did."""
        for change, one in changed:
            self._cases.pop(one.case.number, None)  # so that the order stays that of the changes
            self._cases[one.case.number] = change, one
            self.change = change

    def after(self, change: int) -> list[tuple[int, SweepCase]]:
        """Returns what changed after a change, the latest last."""
        return [(last, one) for last, one in self._cases.values() if last > change]

    def grid(self, sweep: ListedSweep) -> Grid:
        """Returns the answered cases in the order of the sweep."""
        answered = (one.case for _, one in self._cases.values() if one.is_answered)
        return Grid(tuple(sorted(answered, key=lambda case: case.number)), sweep.seconds)
