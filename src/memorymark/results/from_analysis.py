"""The numbers that a comparison and a sweep take from the analysis of each GPU or length."""

from __future__ import annotations

from memorymark.documents import in_document
from memorymark.results.analysis import Analysis
from memorymark.results.timed import Timed


class FromAnalysis(Timed):
    """A mixin for one entry among several, with an analysis if the training fits at all."""

    analysis: Analysis | None

    @property
    @in_document
    def fits(self) -> bool:
        """Whether the training fits at all; if not, the numbers are null."""
        return self.analysis is not None

    @property
    @in_document
    def max_batch_size(self) -> int | None:
        """The largest batch that trains."""
        return self.analysis.max_batch_size if self.analysis else None

    @property
    @in_document
    def max_batch_interval(self) -> tuple[int, int] | None:
        """The interval of the predicted maximum; null if it was measured."""
        return self.analysis.max_batch_interval if self.analysis else None

    @property
    @in_document
    def recommended_batch_size(self) -> int | None:
        """The batch worth using; null if none keeps the margin."""
        return self.analysis.recommended_batch_size if self.analysis else None

    @property
    @in_document
    def samples_per_second(self) -> float | None:
        """Throughput at the batch worth using."""
        return self.timed.samples_per_second if self.timed else None
