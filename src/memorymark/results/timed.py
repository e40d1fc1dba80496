"""The speed of one trial, as parts of a larger document."""

from __future__ import annotations

from memorymark.documents import in_document
from memorymark.results.trial import Trial


class Timed:
    """A mixin for results whose speed is that of one of their trials."""

    @property
    def timed(self) -> Trial | None:
        """The trial; ``None`` if there is none."""
        raise NotImplementedError

    @property
    @in_document(older=None)
    def step_seconds(self) -> float | None:
        """Seconds of a step at the batch worth using."""
        return self.timed.step_seconds if self.timed else None

    @property
    @in_document(older=None)
    def tokens_per_batch(self) -> int | None:
        """Tokens of the batch worth using; null if the samples are not text."""
        return self.timed.tokens_per_batch if self.timed else None

    @property
    @in_document(older=None)
    def tokens_per_second(self) -> float | None:
        """Throughput at the batch worth using, in tokens; null if the samples are not text."""
        return self.timed.tokens_per_second if self.timed else None
