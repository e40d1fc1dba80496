"""One batch size in the format that results were first published in."""

from __future__ import annotations

from dataclasses import dataclass, field

from memorymark.documents import ADDED_LATER, Document
from memorymark.results.trial import Trial
from memorymark.units import MIB, gib


@dataclass(frozen=True)
class ResultRow(Document):
    """One batch size in the published format; ``mb`` and ``gb`` are MiB and GiB."""

    batch_size: int
    """The batch size."""
    memory_mb: float | None
    """Peak allocated in MiB; null if it does not fit."""
    memory_gb: float | None
    """Peak allocated in GiB; null if it does not fit."""
    success: bool
    """Whether it fits."""
    error: str | None
    """Why it does not fit; null if it does."""
    samples_per_second: float | None
    """Throughput; null if it was not timed."""
    step_seconds: float | None = field(default=None, metadata=ADDED_LATER)
    """Seconds of a step; null if it was not timed."""
    tokens_per_batch: int | None = field(default=None, metadata=ADDED_LATER)
    """Tokens in one forward pass; null if the samples are not text."""
    tokens_per_second: float | None = field(default=None, metadata=ADDED_LATER)
    """Throughput in tokens; null if the samples are not text, or nothing was timed."""

    @classmethod
    def of(cls, trial: Trial) -> ResultRow:
        """Makes the row of a trial."""
        return cls(
            batch_size=trial.batch_size,
            memory_mb=trial.peak_allocated_bytes / MIB if trial.fits else None,
            memory_gb=gib(trial.peak_allocated_bytes) if trial.fits else None,
            success=trial.fits,
            error=trial.failure.message if trial.failure else None,
            samples_per_second=trial.samples_per_second,
            step_seconds=trial.step_seconds,
            tokens_per_batch=trial.tokens_per_batch,
            tokens_per_second=trial.tokens_per_second,
        )
