"""Confirming: the best few options run on the GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from memorymark.advice.advice import Option, with_measured
from memorymark.advice.inquiry import Inquiry, named, speed
from memorymark.errors import DoesNotFitError, UsageError, WorkerError
from memorymark.trial import Trial

CONFIRMED = 3
# What a batch of other size must gain to be preferred.
GAINS = 1.02
# What part of a batch is tried where it turned out too large: by what it took, or where that is not known; how often.
SMALLER, SMALLER_UNSEEN, TRIES = 0.98, 0.8, 6
# Where compiling and running took less than this, it is done again for twice the batch.
QUICKLY_COMPILED_SECONDS = 90.0


class Confirming:
    """Runs today's training and what is better by its prediction."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry

    def confirm(self, now: Trial | None, options: list[Option]) -> tuple[Trial | None, list[Option]]:
        """Today's training and the best options, measured; an option that does not run is dropped."""
        measured = self._measure_today() if now is not None else None
        if now is not None and measured is None:
            return None, options
        confirmed: list[Option] = []
        ranked = sorted(options, key=lambda option: -option.samples_per_second) if now is not None else options
        wanted = 1 if self._inquiry.today.recipe.compile else CONFIRMED
        for option in ranked:
            if sum(one.measured is not None for one in confirmed) < wanted:
                confirmed += [run] if (run := self._run(option)) is not None else []
            else:
                confirmed.append(option)
        return measured, confirmed

    def _measure_today(self) -> Trial | None:
        self._inquiry.tell("confirm", f"running today's training at batch {self._inquiry.question.current_batch_size}")
        with self._inquiry.opened(self._inquiry.question.request) as probe:
            if probe.info.device_kind != "cuda":
                return None  # the driver knows a GPU that this torch cannot use
            self._inquiry.info = replace(probe.info, unknown_operations=self._inquiry.info.unknown_operations)
            trial = self._inquiry.measured(probe, self._inquiry.question.current_batch_size)
        return trial if trial.fits else None

    def _run(self, option: Option) -> Option | None:
        """The option as it runs; ``None``, and the reason kept, if it does not."""
        self._inquiry.tell("confirm", f"running {option.title}")
        try:
            trial = self._best_trial(option)
        except (UsageError, WorkerError, DoesNotFitError) as error:
            self._inquiry.refuse(option.changes, str(error))
            return None
        if trial is None:
            self._inquiry.refuse(option.changes, "does not run within the margin of memory.")
            return None
        return with_measured(option, trial, self._predicted(option, trial.batch_size))

    def _best_trial(self, option: Option) -> Trial | None:
        """The option at its batch, or a smaller one that fits, or a larger one that is faster."""
        if option.recipe.compile:
            return self._largest_safe(lambda size: self._alone(option, size), option.batch_size, self._safe_bytes)
        with self._inquiry.opened(self._inquiry.request_of(option)) as probe:
            safe_bytes = (1 - self._inquiry.question.margin) * probe.info.capacity_bytes
            trial = self._largest_safe(lambda size: self._inquiry.measured(probe, size), option.batch_size, safe_bytes)
            if trial is None or option.accumulation_steps > 1:
                return trial
            larger = min(2 * trial.batch_size, option.max_batch_size or 0)
            if larger > 1.3 * trial.batch_size:
                other = self._inquiry.measured(probe, larger)
                is_safe = other.fits and other.peak_reserved_bytes <= safe_bytes
                if is_safe and speed(other) >= GAINS * speed(trial):
                    return other
            return trial

    def _alone(self, option: Option, batch_size: int) -> Trial:
        """A compiled step at one size, in a worker of its own.

        A second size in the same one would be compiled for sizes that vary, into slower code.
        """
        with self._inquiry.opened(self._inquiry.request_of(option)) as probe:
            return self._inquiry.measured(probe, batch_size)

    @property
    def _safe_bytes(self) -> float:
        return (1 - self._inquiry.question.margin) * self._inquiry.info.capacity_bytes

    @staticmethod
    def _largest_safe(measure: Callable[[int], Trial], batch_size: int, safe_bytes: float) -> Trial | None:
        for _ in range(TRIES):
            trial = measure(batch_size)
            if trial.fits and trial.peak_reserved_bytes <= safe_bytes and not trial.allocator_retries:
                return trial
            by_margin = SMALLER * safe_bytes / trial.peak_reserved_bytes if trial.fits else SMALLER_UNSEEN
            batch_size = max(int(min(by_margin, SMALLER) * batch_size), 1)
        return None

    def _predicted(self, option: Option, batch_size: int) -> Trial | None:
        """The prediction for the batch that was run in the end."""
        if option.predicted is None or batch_size == option.batch_size:
            return option.predicted
        one_batch = replace(self._inquiry.request_of(option), recipe=replace(option.recipe, accumulation_steps=1))
        with self._inquiry.opened(self._inquiry.screened(one_batch)) as probe:
            trial = probe.measure(batch_size)
        return trial if trial.fits else None

    def compiled(self, options: list[Option], measured: Trial | None) -> list[Option]:
        """The best option with torch.compile, which can only be run, in a worker of its own."""
        if not self._inquiry.question.try_compile or self._inquiry.today.recipe.compile or not options:
            return []
        if measured is None or self._inquiry.info.device_kind != "cuda":
            if self._inquiry.info.device_kind == "cuda":
                self._inquiry.refuse(("compile",), "only a run on the GPU can tell what it gains, which is often much.")
            return []
        runs = [option for option in options if option.measured is not None]
        best = max(runs, key=lambda option: option.samples_per_second, default=None)
        if best is None:
            return []
        option = replace(
            best,
            changes=(*named(best), "compile"),
            recipe=replace(best.recipe, compile=True),
            predicted=None,
            measured=None,
            max_batch_size=None,
            at_todays_batch=None,
        )
        start = time.perf_counter()
        found = self._run(option)
        if found is None:
            return []
        is_quick = time.perf_counter() - start < QUICKLY_COMPILED_SECONDS
        return [self._at_twice_the_batch(found) if is_quick else found]

    def _at_twice_the_batch(self, found: Option) -> Option:
        """A compiled option with twice its batch, if that fits and is faster."""
        trial = found.measured
        if trial is None or found.accumulation_steps > 1 or 2 * trial.peak_reserved_bytes > self._safe_bytes:
            return found
        self._inquiry.tell("confirm", f"compiling for batch {2 * trial.batch_size}")
        try:
            other = self._best_trial(replace(found, batch_size=2 * trial.batch_size))
        except (WorkerError, DoesNotFitError):
            return found
        return with_measured(found, other, None) if other and speed(other) >= GAINS * speed(trial) else found
