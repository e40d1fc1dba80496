"""Confirming: the best few options run on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from memorymark.advice.advice import Option, with_measured
from memorymark.advice.changes import level_of
from memorymark.advice.inquiry import Inquiry, speed
from memorymark.advice.screening import split
from memorymark.errors import DoesNotFitError, MemoryMarkError, UsageError, WorkerError, WorkerLostError
from memorymark.probe import Probe
from memorymark.request import Request
from memorymark.trial import Trial

CONFIRMED = 3
# What is slower than this part of the best, by prediction, is not worth the seconds of a run.
WORTH_RUNNING = 0.85
# What a batch of other size must gain to be preferred.
GAINS = 1.02
# A batch that turned out too large is made smaller by what it took, or by a fixed part where that is not known.
SMALLER, SMALLER_UNSEEN, TRIES, TRIES_COMPILED = 0.98, 0.8, 6, 2
# What a step may fail with. In this process that is whatever torch's compiler raises.
FAILURES = (UsageError, WorkerError, DoesNotFitError, RuntimeError)


class _CannotRunError(Exception):
    """The driver knows a GPU that this torch cannot use."""


class Confirming:
    """Runs today's training and what is better by its prediction."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry = inquiry

    def confirm(self, now: Trial | None, options: list[Option]) -> tuple[Trial | None, Trial | None, list[Option]]:
        """Today's training as predicted and as measured, and the options; one that does not run is dropped.

        Where a run of today's training disproves that it fits, both are ``None``.
        """
        try:
            measured = self._inquiry.retried(self._measure_today) if now is not None else None
            if now is not None and measured is None:
                now, options = None, self._with_smaller_batch(options)
            return now, measured, self._confirmed(options, fits_today=now is not None)
        except _CannotRunError:
            return now, None, options

    def _confirmed(self, options: list[Option], *, fits_today: bool) -> list[Option]:
        """The options, the best few as they run: the fastest, or the least changes where today's does not fit."""
        confirmed: list[Option] = []
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
        """Today's training as it runs; ``None``, and that kept, if it does not fit after all."""
        batch_size = self._inquiry.question.current_batch_size
        self._inquiry.tell("confirm", f"running today's training at batch {batch_size}")
        # Where not even the weights fit, there is no trial but an error.
        with suppress(DoesNotFitError), self._running(self._inquiry.question.request) as probe:
            self._inquiry.info = replace(probe.info, unknown_operations=self._inquiry.info.unknown_operations)
            trial = self._inquiry.measured(probe, batch_size)
            if trial.fits:
                return trial
        self._inquiry.refuse((), f"does not run at batch {batch_size}, against the prediction.")
        return None

    def _with_smaller_batch(self, options: list[Option]) -> list[Option]:
        """The options, among them today's recipe at a batch below today's, which is too large."""
        too_large, recipe = self._inquiry.question.current_batch_size, self._inquiry.question.request.recipe
        options = [one for one in options if one.changes != ("batch",) or one.batch_size < too_large]
        if too_large == 1 or any(one.changes == ("batch",) for one in options):
            return options
        batch_size, steps = split(too_large * recipe.accumulation_steps, int(SMALLER_UNSEEN * too_large))
        option = Option(
            changes=("batch",),
            recipe=replace(recipe, accumulation_steps=steps),
            batch_size=batch_size,
            accumulation_steps=steps,
        )
        predicted = self._prediction(option, batch_size)
        return [replace(option, predicted=predicted), *options] if predicted else options

    @contextmanager
    def _running(self, request: Request) -> Iterator[Probe]:
        """The probe of a request on the GPU here."""
        with self._inquiry.opened(request) as probe:
            if probe.info.device_kind != "cuda" or probe.info.source != "measured":
                raise _CannotRunError
            yield probe

    def run(self, option: Option) -> Option | None:
        """The option as it runs; ``None``, and the reason kept, if it does not."""
        self._inquiry.tell("confirm", f"running {option.title}")
        try:
            trial = self._inquiry.retried(lambda: self._best_trial(option))
        except WorkerLostError as error:
            self._inquiry.miss(option.changes, error)
            return None
        except FAILURES as error:
            said = error.sentence if isinstance(error, MemoryMarkError) else str(error).partition("\n")[0]
            self._inquiry.refuse(option.changes, said)
            return None
        if trial is None:
            self._inquiry.refuse(option.changes, "does not run within the margin of memory.")
            return None
        return with_measured(option, trial, self._predicted(option, trial.batch_size))

    def _best_trial(self, option: Option) -> Trial | None:
        """The option at its batch, or a smaller one that fits."""
        batch_size = option.batch_size
        for _ in range(TRIES_COMPILED if option.recipe.compile else TRIES):
            # Opened for each size, because compiled code is made for one.
            with self._running(self._inquiry.request_of(option)) as probe:
                trial = self._inquiry.measured(probe, batch_size)
                if self._is_safe(trial, probe):
                    return trial
                part = self._safe_bytes(probe) / trial.peak_reserved_bytes if trial.fits else SMALLER_UNSEEN
            if batch_size == 1:
                break
            batch_size = max(int(SMALLER * min(part, 1) * batch_size), 1)
        return None

    def _with_larger_batch(self, option: Option) -> Option:
        """The option with a larger batch, if that fits and the run shows that it is faster."""
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

    def run_at(self, option: Option, batch_size: int) -> Trial | None:
        """A run of the option at another size; ``None`` if that does not work, which takes nothing from the option."""

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

    def _predicted(self, option: Option, batch_size: int) -> Trial | None:
        """The prediction for the batch that was run in the end."""
        if option.predicted is None or batch_size == option.batch_size:
            return option.predicted
        return self._prediction(option, batch_size)

    def _prediction(self, option: Option, batch_size: int) -> Trial | None:

        def look() -> Trial:
            with self._inquiry.opened(self._inquiry.screened(self._inquiry.request_of(option))) as probe:
                return probe.measure(batch_size)

        trial = self._inquiry.retried(look)
        return trial if trial.fits else None


def runs_of(options: list[Option]) -> list[Option]:
    """Those that were run."""
    return [option for option in options if option.measured is not None]
