"""Shared by the callbacks for transformers and Lightning: runs a detector from start to end of a training."""

from __future__ import annotations

import atexit

from memorymark.watch.detector import Detector
from memorymark.watch.report import Report, make_report


class WatchedTraining:
    """Watches from ``begin`` to ``end``; ``report`` holds the report so far, and ``show`` prints it at the end.

    An interrupted loop may never call ``end``; then the report is printed when Python exits.
    """

    def __init__(self, title: str, *, show: bool) -> None:
        self._title, self._show = title, show
        self._detector: Detector | None = None
        self._running = False

    @property
    def report(self) -> Report | None:
        """The report on the training so far; ``None`` before it begins."""
        return None if self._detector is None else make_report(self._title, self._detector.observation())

    def begin(self) -> None:
        """The training begins."""
        from memorymark.watch.hooks import install

        if self._running:
            self.end()
        self._detector = Detector()
        self._running = True
        install(self._detector)
        atexit.register(self.end)

    def end(self, error: BaseException | None = None) -> None:
        """The training is over, perhaps because of an exception."""
        from memorymark.watch.hooks import uninstall

        if not self._running or self._detector is None:
            return
        self._running = False
        atexit.unregister(self.end)
        self._detector.ended(error)
        uninstall(self._detector)
        if self._show and (report := self.report) is not None:
            from memorymark.render.watch import print_watch_report

            print_watch_report(report)
