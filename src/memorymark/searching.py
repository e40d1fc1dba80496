"""One search with one probe: every trial is told of, and kept if the work ends early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memorymark.errors import MemoryMarkError
from memorymark.events import OnEvent, Stage, StageStarted, TrialFinished
from memorymark.probe import Probe
from memorymark.search import SearchResult, find_maximum
from memorymark.trial import Trial
from memorymark.units import format_bytes


class TrialLog:
    """Keeps every trial and tells the listener of each."""

    def __init__(self, on_event: OnEvent) -> None:
        self.trials: list[Trial] = []
        self._on_event = on_event

    def tell(self, announcement: StageStarted) -> None:
        """Tells the listener what comes now."""
        self._on_event(announcement)

    def watching(
        self, stage: Stage, run: Callable[[int], Trial], announcement: StageStarted | None = None
    ) -> Callable[[int], Trial]:
        """The same with every trial kept and told of; the first one is announced."""

        def run_and_tell(batch_size: int) -> Trial:
            nonlocal announcement
            if announcement is not None:
                self.tell(announcement)
                announcement = None
            trial = run(batch_size)
            self.trials.append(trial)
            self._on_event(TrialFinished(stage, trial))
            return trial

        return run_and_tell

    @contextmanager
    def kept_on_error(self) -> Iterator[None]:
        """Gives an error the trials so far."""
        try:
            yield
        except MemoryMarkError as error:
            error.trials = self.trials
            raise


def search_with(probe: Probe, limit: int, log: TrialLog) -> SearchResult:
    """The largest batch up to ``limit`` that a training can start with."""
    info, capacity = probe.info, probe.info.capacity_bytes
    memory = (capacity, info.target_bytes, info.capped)
    log.tell(StageStarted("search", f"searching the largest batch within {format_bytes(info.target_bytes)}", *memory))
    starting = StageStarted("search", "trying sizes that a training starts with", *memory)
    return find_maximum(
        log.watching("search", probe.try_batch),
        capacity,
        guide=probe,
        limit=limit,
        from_start=log.watching("search", probe.try_from_start, starting),
    )
