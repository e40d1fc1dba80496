"""Searches with one probe; listeners hear of every trial, and trials are kept if the search ends early."""

from __future__ import annotations

from collections.abc import Callable

from memorymark.events import HeardTrials, Stage, StageStarted, TrialFinished
from memorymark.largest_batch import SearchResult, find_maximum
from memorymark.probe.base import Probe
from memorymark.results.trial import Trial
from memorymark.units import format_bytes


class TrialLog(HeardTrials):
    """Keeps every trial and reports it to the listener."""

    def watching(
        self, stage: Stage, run: Callable[[int], Trial], announcement: StageStarted | None = None
    ) -> Callable[[int], Trial]:
        """Wraps ``run`` so that every trial is kept and reported, the first one after ``announcement``."""

        def run_and_tell(batch_size: int) -> Trial:
            nonlocal announcement
            if announcement is not None:
                self.hear(announcement)
                announcement = None
            trial = run(batch_size)
            self.hear(TrialFinished(stage, trial))
            return trial

        return run_and_tell


def search_with(probe: Probe, limit: int, log: TrialLog) -> SearchResult:
    """Finds the largest batch up to ``limit`` that a training can start with."""
    info, capacity = probe.info, probe.info.capacity_bytes
    memory = (capacity, info.target_bytes, info.capped)
    message = f"searching for the largest batch within {format_bytes(info.target_bytes)}"
    log.hear(StageStarted("search", message, *memory))
    starting = StageStarted("search", "checking sizes as the first step of a training", *memory)
    return find_maximum(
        log.watching("search", probe.try_batch),
        capacity,
        guide=probe,
        limit=limit,
        from_start=log.watching("search", probe.try_from_start, starting),
    )
