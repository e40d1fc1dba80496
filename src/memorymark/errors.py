"""Every failure a caller may see: one sentence that says what to do next, and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memorymark.probe import ProbeInfo
    from memorymark.suggestion import Suggestion
    from memorymark.trial import Trial


class MemoryMarkError(Exception):
    """Something failed; ``sentence`` is what a person can act on, ``trials`` what had run until then.

    ``detail`` is what a library or a model said: for whoever runs the program and for logs, never for strangers.
    """

    exit_code = 1

    def __init__(self, sentence: str, *, detail: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.detail = sentence, detail
        self.trials: list[Trial] = []

    def __str__(self) -> str:
        """The sentence, and the detail behind a colon."""
        return f"{self.sentence.rstrip('.')}: {self.detail.rstrip('.')}." if self.detail else self.sentence


class UsageError(MemoryMarkError):
    """The request itself is wrong: an unknown model, a negative size, a device that is not here."""

    exit_code = 2


class NotAllowedError(UsageError):
    """The operator of the service does not let callers do this."""


class TooLargeForWorkerError(UsageError):
    """The question needs more of the host's memory than a worker may take."""


class DoesNotFitError(MemoryMarkError):
    """Not even a batch of one trains on the target.

    ``what`` is what does not fit, ``hint`` what to do about it: together they are the sentence. ``info`` is the device
    and the model, where they were known by then. ``suggestions`` are changes that were checked to fit, the best first:
    an empty list says that none was found, ``None`` that none was looked for.
    """

    exit_code = 3

    def __init__(
        self,
        what: str,
        shortfall_bytes: int | None = None,
        *,
        hint: str = "",
        info: ProbeInfo | None = None,
        suggestions: Sequence[Suggestion] | None = None,
    ) -> None:
        super().__init__(f"{what.removesuffix('.')}; {hint}." if hint else what)
        self.what, self.hint = what, hint
        self.shortfall_bytes, self.info = shortfall_bytes, info
        self.suggestions = None if suggestions is None else list(suggestions)


class LaunchLimitError(DoesNotFitError):
    """A kernel reached a launch limit at every batch: more memory would not help."""


class WorkerError(MemoryMarkError):
    """The process that runs the training steps was killed, crashed or hung."""


class WorkerLostError(WorkerError):
    """The process that runs the training steps is gone, or had to be ended, before it answered."""


class CannotPredictError(MemoryMarkError):
    """The step does something whose memory or shape cannot be known without running it."""


class HistoryError(MemoryMarkError):
    """The database of past analyses cannot be read or written."""


class UnwritableError(HistoryError):
    """One record cannot be written as it is, however often that is tried; others can."""


class QueueFullError(MemoryMarkError):
    """The service has as much work waiting as it takes."""


class StoppedError(MemoryMarkError):
    """The work was stopped before its end: somebody cancelled it, its time was up, or the service shut down."""


class ServerError(MemoryMarkError):
    """A service does not answer, or not as one does."""
