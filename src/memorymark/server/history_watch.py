"""Checks the history from time to time, so that health calls need not wait for it."""

from __future__ import annotations

import logging
import time

from memorymark.errors import HistoryError
from memorymark.history import Store

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
UNUSABLE = "the history cannot be used now; the service's log says why."


class HistoryWatch:
    """Keeps ``problem`` up to date: one sentence, or ``None`` while all is well."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._look_at = 0.0
        self.problem: str | None = None

    def look(self) -> None:
        """Checks the history, if the last check is old enough."""
        if time.monotonic() < self._look_at:
            return
        found = self._found()
        if found != self.problem:
            log.warning("history: %s", found or "it can be used again.")
        self.problem = found
        self._look_at = time.monotonic() + LOOK_SECONDS

    def failed(self, error: HistoryError) -> None:
        """Reports that the history could not be used, which is a problem until the next check says otherwise."""
        log.warning("%s", error)
        self.problem = self._no_room() or UNUSABLE
        self._look_at = time.monotonic() + LOOK_SECONDS

    def _no_room(self) -> str | None:
        try:
            self._store.require_room()
        except HistoryError as error:
            return str(error)
        except OSError:
            return UNUSABLE
        return None

    def _found(self) -> str | None:
        problem = self._no_room()
        if problem is not None:
            return problem
        try:
            return self._store.damage()
        except HistoryError as error:
            if self.problem is None:
                log.warning("%s", error)
            return UNUSABLE
