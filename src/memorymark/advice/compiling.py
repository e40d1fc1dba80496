"""Compiling: runs the best option with torch.compile, whose effect cannot be predicted."""

from __future__ import annotations

import time
from dataclasses import replace

from memorymark.advice.confirming import Confirming, runs_of
from memorymark.advice.inquiry import Inquiry, named, speed
from memorymark.question.changes import CHANGES
from memorymark.results.option import TrainingOption, with_measured

# Recipes this close to the fastest count as equally fast; of these, the one with the most free changes is compiled.
AS_FAST = 0.97
# No further size is compiled if that would take the total past this.
COMPILING_SECONDS = 160.0
# The smallest size this close to the fastest is chosen.
SMALLER_IS_AS_FAST = 1.01


class Compiling:
    """Runs the best measured option again, compiled."""

    def __init__(self, inquiry: Inquiry, confirming: Confirming) -> None:
        self._inquiry, self._confirming = inquiry, confirming

    def options(self, options: list[TrainingOption]) -> list[TrainingOption]:
        """Returns the best of the options, compiled; an empty list if compiling is impossible or fails."""
        if not self._inquiry.question.try_compile or self._inquiry.today.recipe.compile or not options:
            return []
        if self._inquiry.info.device_kind != "cuda":
            return []
        runs = runs_of(options)
        if not runs:
            self._inquiry.refuse(("compile",), "its gain is often large, but only a run on the GPU can measure it.")
            return []
        fastest = max(option.samples_per_second for option in runs)
        as_fast = [option for option in runs if option.samples_per_second >= AS_FAST * fastest]
        best = max(as_fast, key=lambda option: (_free_changes(option), option.samples_per_second))
        option = replace(
            best,
            changes=(*named(best), "compile"),
            recipe=replace(best.recipe, compile=True),
            predicted=None,
            measured=None,
            max_batch_size=None,
            at_todays_batch=None,
        )
        return self._at_its_best_size(option)

    def _at_its_best_size(self, option: TrainingOption) -> list[TrainingOption]:
        """Runs a compiled option at half, a quarter and all of its batch: compiled code often prefers smaller ones."""
        whole, start = option.batch_size, time.perf_counter()
        half, quarter = whole // 2, whole // 4
        if option.accumulation_steps > 1 or half < self._effective_batch:
            return [found] if (found := self._confirming.run(option)) is not None else []
        found = self._confirming.run(replace(option, batch_size=half))
        if found is None or found.measured is None:
            return []
        trials = [found.measured]
        for size in (quarter, whole):
            took = (time.perf_counter() - start) / len(trials)
            is_late = took * (len(trials) + 1) > COMPILING_SECONDS
            # A smaller size was faster, or half of the batch was already too large.
            too_large = max(trials, key=speed) is not trials[0] or trials[0].batch_size < half
            if is_late or size < self._effective_batch or (size == whole and too_large):
                continue
            self._inquiry.tell("confirm", f"compiling for batch {size}")
            trials += [other] if (other := self._confirming.run_at(found, size)) is not None else []
        enough = max(map(speed, trials)) / SMALLER_IS_AS_FAST
        smallest = min((trial for trial in trials if speed(trial) >= enough), key=lambda trial: trial.batch_size)
        return [with_measured(found, smallest, None)]

    @property
    def _effective_batch(self) -> int:
        question = self._inquiry.question
        return question.current_batch_size * question.request.recipe.accumulation_steps


def _free_changes(option: TrainingOption) -> int:
    return sum(CHANGES[change].level == 0 for change in named(option))
