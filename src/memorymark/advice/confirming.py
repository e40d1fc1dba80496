"""Confirming: runs the best few options on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from memorymark.advice.inquiry import Inquiry, speed
from memorymark.advice.screening import split
from memorymark.errors import DoesNotFitError, MemoryMarkError, UsageError, WorkerError, WorkerLostError
from memorymark.probe.base import Probe
from memorymark.question.changes import level_of
from memorymark.question.request import Request
from memorymark.results.option import TrainingOption, with_measured
from memorymark.results.trial import Trial

CONFIRMED = 3
# An option predicted below this fraction of the best speed is not worth a run.
WORTH_RUNNING = 0.85
# How much faster another batch size must be to be preferred.
GAINS = 1.02
# A batch that turns out too large is reduced by what it took too much, or by a fixed factor if that is unknown.
SMALLER, SMALLER_UNSEEN, TRIES, TRIES_COMPILED = 0.98, 0.8, 6, 2
# The errors of a failed step; in this process, torch's compiler raises any RuntimeError.
FAILURES = (UsageError, WorkerError, DoesNotFitError, RuntimeError)


class _CannotRunError(Exception):
    """The driver lists a GPU that this torch cannot use."""


class Confirming:
    """Runs today's training and the options that were predicted to be better."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry

    def confirm(
        self, now: Trial | None, options: list[TrainingOption]
    ) -> tuple[Trial | None, Trial | None, list[TrainingOption]]:
        """Returns today's training as predicted and as measured, and the options that run.

        Both trials are ``None`` if today's training turns out not to fit.
        """
        try:
            measured = self._inquiry.retried(self._measure_today) if now is not None else None
            if now is not None and measured is None:
                now, options = None, self._with_smaller_batch(options)
            return now, measured, self._confirmed(options, fits_today=now is not None)
        except _CannotRunError:
            return now, None, options

    def _confirmed(self, options: list[TrainingOption], *, fits_today: bool) -> list[TrainingOption]:
        """Runs the best few options: the fastest, or those with the fewest changes if today's training does not fit."""
        confirmed: list[TrainingOption] = []
        ranked = sorted(options, key=lambda one: -one.samples_per_second if fits_today else level_of(one.changes))
        wanted = 1 if self._inquiry.today.recipe.compile else CONFIRMED
        best_predicted = 0.0
        for option in ranked:
            runs, predicted_speed = len(runs_of(confirmed)), option.samples_per_second
            is_near = not fits_today or predicted_speed >= WORTH_RUNNING * best_predicted
            if runs == 0 or (runs < wanted and is_near):
                run = self.run(option)
                if run is not None:
                    best_predicted = max(best_predicted, predicted_speed)
                    confirmed.append(run)
            else:
                confirmed.append(option)
        best = max(runs_of(confirmed), key=lambda option: option.samples_per_second, default=None)
        return [self._with_larger_batch(one) if one is best else one for one in confirmed]

    def _measure_today(self) -> Trial | None:
        """Runs today's training; returns ``None``, and records that it does not fit, if it fails."""
        batch_size = self._inquiry.question.current_batch_size
        self._inquiry.tell("confirm", f"running today's training at batch {batch_size}")
        # If not even the weights fit, opening the probe raises.
        with suppress(DoesNotFitError), self._running(self._inquiry.question.request) as probe:
            before = self._inquiry.info
            self._inquiry.info = replace(
                probe.info,
                unknown_operations=before.unknown_operations,
                unchecked_options=before.unchecked_options,
                untimed_operations=before.untimed_operations,
                untimed_options=before.untimed_options,
            )
            trial = self._inquiry.measured(probe, batch_size)
            if trial.fits:
                return trial
        self._inquiry.refuse((), f"does not run at batch {batch_size}, against the prediction.")
        return None

    def _with_smaller_batch(self, options: list[TrainingOption]) -> list[TrainingOption]:
        """Returns the options plus today's recipe at a smaller batch, because today's is too large."""
        too_large, recipe = self._inquiry.question.current_batch_size, self._inquiry.question.request.recipe
        options = [one for one in options if one.changes != ("batch",) or one.batch_size < too_large]
        if too_large == 1 or any(one.changes == ("batch",) for one in options):
            return options
        batch_size, steps = split(too_large * recipe.accumulation_steps, int(SMALLER_UNSEEN * too_large))
        option = TrainingOption(
            changes=("batch",),
            recipe=replace(recipe, accumulation_steps=steps),
            batch_size=batch_size,
            accumulation_steps=steps,
        )
        predicted = self._prediction(option, batch_size)
        return [replace(option, predicted=predicted), *options] if predicted else options

    @contextmanager
    def _running(self, request: Request) -> Iterator[Probe]:
        """Opens the probe of a request on this machine's GPU."""
        with self._inquiry.opened(request) as probe:
            if probe.info.device_kind != "cuda" or probe.info.source != "measured":
                raise _CannotRunError
            yield probe

    def run(self, option: TrainingOption) -> TrainingOption | None:
        """Runs the option; returns ``None`` and records the reason if it does not run."""
        self._inquiry.tell("confirm", f"running {option.title}")
        try:
            trial = self._inquiry.retried(lambda: self._best_trial(option))
        except WorkerLostError as error:
            self._inquiry.miss(option.changes, error)
            return None
        except FAILURES as error:
            said = error.reason if isinstance(error, MemoryMarkError) else str(error).partition("\n")[0]
            self._inquiry.refuse(option.changes, said)
            return None
        if trial is None:
            self._inquiry.refuse(option.changes, "does not run within the margin of memory.")
            return None
        return with_measured(option, trial, self._predicted(option, trial.batch_size))

    def _best_trial(self, option: TrainingOption) -> Trial | None:
        """Runs the option at its batch, or at a smaller one that fits; returns ``None`` if none does."""
        batch_size = option.batch_size
        for _ in range(TRIES_COMPILED if option.recipe.compile else TRIES):
            # A new probe for each size, because compiled code is specialized to one.
            with self._running(self._inquiry.request_of(option)) as probe:
                trial = self._inquiry.measured(probe, batch_size)
                if self._is_safe(trial, probe):
                    return trial
                part = self._safe_bytes(probe) / trial.peak_reserved_bytes if trial.fits else SMALLER_UNSEEN
            if batch_size == 1:
                break
            batch_size = max(int(SMALLER * min(part, 1) * batch_size), 1)
        return None

    def _with_larger_batch(self, option: TrainingOption) -> TrainingOption:
        """Returns the option with a larger batch if that fits and runs faster."""
        smaller = option.measured
        if smaller is None or option.recipe.compile or option.accumulation_steps > 1:
            return option
        larger = min(2 * smaller.batch_size, option.max_batch_size or 0)
        if larger <= 1.3 * smaller.batch_size:
            return option
        trial = self.run_at(option, larger)
        if trial is None or speed(trial) < GAINS * speed(smaller):
            return option
        return with_measured(option, trial, self._predicted(option, larger))

    def run_at(self, option: TrainingOption, batch_size: int) -> Trial | None:
        """Runs the option at another size; returns ``None`` if that fails, which does not rule out the option."""

        def look() -> Trial | None:
            with self._running(self._inquiry.request_of(option)) as probe:
                trial = self._inquiry.measured(probe, batch_size)
                return trial if self._is_safe(trial, probe) else None

        try:
            return self._inquiry.retried(look)
        except WorkerLostError as error:
            self._inquiry.miss(option.changes, error)
            return None
        except FAILURES:
            return None

    def _is_safe(self, trial: Trial, probe: Probe) -> bool:
        return trial.fits and trial.peak_reserved_bytes <= self._safe_bytes(probe) and not trial.allocator_retries

    def _safe_bytes(self, probe: Probe) -> float:
        return (1 - self._inquiry.question.margin) * probe.info.capacity_bytes

    def _predicted(self, option: TrainingOption, batch_size: int) -> Trial | None:
        """Returns the prediction for the batch size that was finally run."""
        if option.predicted is None or batch_size == option.batch_size:
            return option.predicted
        return self._prediction(option, batch_size)

    def _prediction(self, option: TrainingOption, batch_size: int) -> Trial | None:

        def look() -> Trial:
            with self._inquiry.opened(self._inquiry.screened(self._inquiry.request_of(option))) as probe:
                return probe.measure(batch_size)

        trial = self._inquiry.retried(look)
        return trial if trial.fits else None


def runs_of(options: list[TrainingOption]) -> list[TrainingOption]:
    """Returns the options that were run."""
    return [option for option in options if option.measured is not None]
