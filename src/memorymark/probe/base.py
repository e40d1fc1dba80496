"""The interface of a probe, as the search and the analysis use it."""

from __future__ import annotations

from typing import Any, Protocol

from memorymark.catalog import GpuEntry
from memorymark.largest_batch import Guide
from memorymark.results.explanation import Anatomy
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial


class Probe(Guide, Protocol):
    """Runs or predicts steps at a batch size, and guides the search by their results."""

    info: ProbeInfo

    def try_batch(self, batch_size: int) -> Trial:
        """Tells whether a batch fits and its peak, quickly: no timing, no breakdown."""

    def try_from_start(self, batch_size: int) -> Trial:
        """Like ``try_batch``, for a training that starts with this size: its memory is laid out differently."""

    def measure(self, batch_size: int) -> Trial:
        """Returns the full trial, with breakdown and time, of a training that starts with this size."""

    def keep_outputs(self, keep: bool) -> None:
        """Continues with a loop that keeps the model's outputs through the backward pass, or that drops them."""


class OpenProbe(Probe, Protocol):
    """A probe opened for a training, which can switch to another GPU or other samples. A context manager.

    ``MeasuredProbe`` and ``PredictedProbe`` are not open probes: they know one model on one device.
    """

    def __enter__(self) -> OpenProbe:
        """Builds the model on its device, or traces it."""

    def __exit__(self, *exc_info: object) -> None:
        """Leaves the device as it was."""

    def explain(self, batch_size: int) -> Anatomy:
        """Returns the full trial, and where its memory goes."""

    def snapshot(self, batch_size: int) -> dict[str, Any]:
        """Returns what ``torch.cuda.memory._snapshot`` does after a few steps whose memory history is recorded."""

    def retarget(self, gpu: GpuEntry) -> None:
        """Predicts for another GPU from here on; a probe that measures refuses."""

    def reshape(self, seq_len: int, mean_tokens: int | None = None) -> None:
        """Continues with samples of another length; a workload that makes its own batches refuses.

        ``mean_tokens`` is another mean length of samples that are packed into rows of that length.
        """
