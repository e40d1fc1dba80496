"""What the callbacks for transformers and Lightning share: a detector between the start and the end of a training."""

from __future__ import annotations

import atexit

from memorymark.integrations.detector import Detector
from memorymark.integrations.report import Report, make_report


class WatchedTraining:
    """Watches from ``begin`` to ``end``; ``report`` says what was seen so far. ``show`` prints it at the end.

    A loop that is interrupted may never say so: then the report comes when Python ends.
    """

    def __init__(self, title: str, *, show: bool) -> None:
        self._title, self._show = title, show
        self._detector: Detector | None = None
        self._running = False

    @property
    def report(self) -> Report | None:
        """What is known of the training; ``None`` before it has begun."""
        return None if self._detector is None else make_report(self._title, self._detector.observation())

    def begin(self) -> None:
        """The training begins."""
        from memorymark.integrations.hooks import install

        if self._running:
            self.end()
        self._detector = Detector()
        self._running = True
        install(self._detector)
        atexit.register(self.end)

    def end(self, error: BaseException | None = None) -> None:
        """The training is over, perhaps by an exception."""
        from memorymark.integrations.hooks import uninstall

        if not self._running or self._detector is None:
            return
        self._running = False
        atexit.unregister(self.end)
        self._detector.ended(error)
        uninstall(self._detector)
        if self._show and (report := self.report) is not None:
            from memorymark.render.watch import print_watch_report

            print_watch_report(report)
