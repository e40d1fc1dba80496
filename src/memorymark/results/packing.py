"""What packing samples into rows gains over padding each to a row of its own."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.documents import Document, in_document
from memorymark.results.trial import Trial


@dataclass(frozen=True)
class Packing(Document):
    """A training on packed rows, beside the same with one sample in each row, as long as the row."""

    mean_tokens: int
    """The mean length of the samples in a row."""
    row_tokens: int
    """The length of a row."""
    longest_max_batch_size: int
    """The largest batch of rows with one sample each; 0 if none fits."""
    longest: Trial
    """The trial of such rows at the batch that is recommended for typical rows."""
    typical_seconds: float | None
    """Seconds of a step of typical rows at that batch; null if it was not timed."""

    @property
    @in_document
    def samples_per_row(self) -> float:
        """Samples that a row holds on average."""
        return self.row_tokens / self.mean_tokens

    @property
    @in_document
    def gain(self) -> float | None:
        """Throughput in tokens of samples, over that with each sample padded to a whole row; null if not timed."""
        if not self.longest.step_seconds or not self.typical_seconds:
            return None
        return self.samples_per_row * self.longest.step_seconds / self.typical_seconds
