"""Ranks the ways in which several GPUs can share a training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memorymark.advice.inquiry import Inquiry
from memorymark.advice.screening import Screening
from memorymark.engine.analyze import least_bytes
from memorymark.errors import CannotPredictError, UsageError
from memorymark.question.changes import level_of
from memorymark.question.sharing_changes import DEGREES
from memorymark.results.advice import AS_FAST
from memorymark.results.option import TrainingOption
from memorymark.results.trial import Trial
from memorymark.units import format_bytes

# FSDP comes first: it takes the least memory, and the fewest seconds to trace.
STRATEGIES = ("fsdp", "zero2", "hsdp", "zero1", "ddp")


class Strategies:
    """Tries each strategy and number of GPUs that share layers, with checkpointing where it does not fit without, and
    what else makes the fastest of them faster.
    """

    def __init__(self, inquiry: Inquiry, screening: Screening) -> None:
        self._inquiry, self._screening, self._saves = inquiry, screening, False

    def options(self) -> tuple[Trial | None, list[TrainingOption]]:
        """Returns today's training, if it fits, and the ways to train."""
        now: Trial | None = None
        options: list[TrainingOption] = []
        found = self._screening.todays() if self._may_fit_today() else None
        if found is None:
            self._screening.does_not_fit()
        else:
            now, start = found
            is_new = now is None or start.batch_size != self._inquiry.question.current_batch_size
            options = [start] if is_new else []
        options += self._saved((), found[1] if found is not None else None)
        options += self._shared()
        ways = [*options, *(found[1:] if found is not None else ())]
        if ways:
            enough = AS_FAST * max(one.samples_per_second for one in ways)
            as_fast = [one for one in ways if one.samples_per_second >= enough]
            options += self._screening.faster(min(as_fast, key=lambda one: level_of(one.changes)))
        return now, options

    def _may_fit_today(self) -> bool:
        """Learns about the model from its parts, which takes the least, and tells whether more may fit."""
        inquiry, screening = self._inquiry, self._screening
        inquiry.tell("advise", "looking at the model, cut into parts")
        try:
            in_parts = replace(inquiry.today.recipe, strategy="fsdp", tensor_parallel=1)
            parts = replace(inquiry.today, recipe=in_parts)
            with inquiry.opened(inquiry.screened(parts)) as probe:
                screening.know(probe)
        except (UsageError, CannotPredictError):
            return True  # today's training says what is known
        least = least_bytes(inquiry.today, inquiry.info)
        if least <= inquiry.info.capacity_bytes:
            return True
        said = f"weights, gradients and optimizer state alone take {format_bytes(least)}"
        inquiry.refuse((), f"does not fit: {said}.", does_not_fit=True)
        return False

    def _shared(self) -> Iterator[TrainingOption]:
        for strategy in STRATEGIES:
            yield from self._way(strategy)
        for degree in DEGREES:
            before = len(self._inquiry.refused)
            yield from self._way(f"tensor_parallel_{degree}")
            if any(not one.does_not_fit for one in self._inquiry.refused[before:]):
                return  # the model has no plan, or nothing that more GPUs could divide

    def _way(self, change: str) -> Iterator[TrainingOption]:
        """Yields the option that a change leads to, and with checkpointing where that is needed."""
        if self._saves:  # what needed it so far takes no more for activations
            option = self._screening.option((change, "checkpointing"))
            yield from [option] if option is not None else []
            return
        before = len(self._inquiry.refused)
        option = self._screening.option((change,))
        if option is not None:
            yield option
        elif not any(one.does_not_fit for one in self._inquiry.refused[before:]):
            return  # it does not apply
        yield from self._saved((change,), option)

    def _needed(self, option: TrainingOption) -> int:
        """Returns the part of today's effective batch that is in one of an option's batches."""
        todays_steps = self._inquiry.question.request.recipe.accumulation_steps
        return self._screening.share_of(option.recipe) // todays_steps

    def _saved(self, changes: tuple[str, ...], without: TrainingOption | None) -> Iterator[TrainingOption]:
        """Yields the option with checkpointing, if a GPU cannot hold its part of today's batch without."""
        holds_it = without is not None and (without.max_batch_size or 0) >= self._needed(without)
        saving = (*changes, "checkpointing")
        if holds_it or not self._screening.is_roomy(saving):
            return
        self._saves = True
        option = self._screening.option(saving)
        yield from [option] if option is not None else []
