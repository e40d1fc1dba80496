"""Screening: analyzes each candidate recipe, by prediction if possible."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import TypeVar

from memorymark.advice.fitting import LAST_RESORTS, facts_of, fitting_changes
from memorymark.advice.inquiry import Inquiry, named, speed
from memorymark.engine.analyze import analyze_with, least_bytes
from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    MemoryMarkError,
    UsageError,
    WorkerError,
    WorkerLostError,
)
from memorymark.events import ignore
from memorymark.probe.base import Probe
from memorymark.question.change import Facts
from memorymark.question.changes import CHANGES, NEED_BITSANDBYTES, apply_all
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.results.analysis import Analysis
from memorymark.results.option import TrainingOption
from memorymark.results.trial import Trial
from memorymark.units import format_bytes, format_rate

Found = TypeVar("Found")
# Tried in this order; a change that gains stays in the recipe, and the next is tried on top of it.
FASTER = (
    ("drop_outputs",),
    ("no_checkpointing",),
    ("tf32", "bf16", "fp16"),
    ("sdpa",),
    ("flash",),
    ("channels_last",),
    ("fused",),
)
# A change with a cost must gain this much to be kept; a free one must only not lose.
GAINS, LOSES_NOTHING = 1.02, 0.995
# Keeping the effective batch may cost this much of the best speed.
KEEPS_BATCH = 0.97
SHORTEST_TOKENS = 64
# If this many sets of changes are predicted to fit, the last resorts are not tried: each set takes two traces.
ENOUGH = 3


class Screening:
    """Looks for recipes that are faster than today's, or that fit if today's does not.

    ``start`` is today's recipe at its best batch, ``None`` if it does not fit; ``facts`` say which changes apply.
    ``missing_bytes`` are what changes that do not fit lack at batch 1, where that is known.
    """

    facts: Facts

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry, self._today = inquiry, inquiry.today
        question = inquiry.question
        recipe = question.request.recipe
        self._effective_batch = question.current_batch_size * recipe.accumulation_steps * recipe.data_parallel
        self.start: TrainingOption | None = None
        self.missing_bytes: dict[tuple[str, ...], int] = {}
        self._fits_today = self._keeps_effective_batch = True

    def options(self) -> tuple[Trial | None, list[TrainingOption]]:
        """Returns today's training, if it fits, and the options that are better; none if no batch of it fits."""
        found = self.todays()
        if found is None:
            return None, []
        now, bigger_batch = found
        options = [bigger_batch] if bigger_batch.batch_size != self._inquiry.question.current_batch_size else []
        return now, [*options, *self.faster(bigger_batch)]

    def todays(self) -> tuple[Trial | None, TrainingOption] | None:
        """Returns today's training, if its batch fits, and at its best batch; ``None`` if no batch of it fits."""
        self._inquiry.tell("advise", "analyzing today's training")
        try:
            found = self._inquiry.retried(lambda: self._try(()))
        except CannotPredictError:
            if self._inquiry.gpu is None:
                raise
            self._inquiry.gpu = None  # run every candidate instead of predicting it
            found = self._inquiry.retried(lambda: self._try(()))
        self.start = found[1] if found is not None else None
        return found

    def faster(self, start: TrainingOption) -> Iterator[TrainingOption]:
        """Yields recipes that are each faster than the one before, and one that takes less memory."""
        best = start
        for group in FASTER:
            better = best
            for change in group:
                if change == "no_checkpointing" and "checkpointing" in named(best):
                    continue
                option = self.option((*named(best), change))
                if option is None:
                    continue
                # Keeping today's effective batch is worth a little speed.
                kept = KEEPS_BATCH if option.effective_batch_size < best.effective_batch_size else 1.0
                enough = kept * (LOSES_NOTHING if CHANGES[change].level == 0 else GAINS)
                if option.samples_per_second < enough * best.samples_per_second:
                    self._inquiry.refuse(option.changes, _gains_little(option, best))
                    continue
                yield option
                if option.samples_per_second >= kept * LOSES_NOTHING * better.samples_per_second:
                    better = option
            best = better
        # If checkpointing was dropped, adding it would lead back to today's recipe.
        if self._inquiry.info.source == "predicted" and "no_checkpointing" not in named(best):
            option = self.option((*named(best), "checkpointing"))
            yield from [option] if option is not None else []

    def does_not_fit(self) -> None:
        """Says that today's training does not fit: from here on, today's effective batch is worth any speed.

        Not so on several GPUs: their parts of the weights would be gathered for each batch that is accumulated.
        """
        self.start, self._fits_today = None, False
        self._keeps_effective_batch = self._today.recipe.gpus == 1

    def smaller(self) -> Iterator[TrainingOption]:
        """Yields recipes that fit although today's does not, smallest change first; for all but language models."""
        tried: dict[tuple[str, ...], bool] = {}
        for changes in fitting_changes(self._today, self.facts):
            if sum(tried.values()) >= ENOUGH and not LAST_RESORTS.isdisjoint(changes) and self._inquiry.gpu is None:
                continue  # on a GPU here, those that were predicted to fit may fail
            tried[changes] = False
            if (option := self.option(changes)) is not None:
                tried[changes] = True
                yield option
        # Shorter samples are the last resort, and an alternative if only one set of changes fits.
        if sum(tried.values()) < 2:
            unfit = [changes for changes, fits in tried.items() if not fits and self.is_roomy(changes)]
            yield from self._shorter(unfit[-1] if unfit else ())

    def apart(self, inquiry: Inquiry) -> Screening:
        """Returns this screening as a part of the search, which notes only for itself what does not fit."""
        part = copy(self)
        part._inquiry, part.missing_bytes = inquiry, dict(self.missing_bytes)
        return part

    def changed(self, changes: tuple[str, ...]) -> Request | None:
        """Returns today's request with some changes, or ``None`` if one of them does not apply."""
        return apply_all(self._today, changes, self.facts)

    def is_roomy(self, changes: tuple[str, ...]) -> bool:
        """Tells whether at least weights, gradients and optimizer state leave the margin free."""
        request = self.changed(changes)
        return request is not None and least_bytes(request, self._inquiry.info) <= self._inquiry.safe_bytes

    def _shorter(self, changes: tuple[str, ...]) -> Iterator[TrainingOption]:
        """Yields the option with the longest samples that fit with these changes."""
        tokens = self.facts.tokens // 2
        while tokens >= SHORTEST_TOKENS:
            option = self.option((*changes, "shorter"), seq_len=tokens)
            if option is not None:
                yield option
                return
            tokens //= 2

    def option(
        self, changes: tuple[str, ...], seq_len: int | None = None, *, accumulates: bool = True
    ) -> TrainingOption | None:
        """Returns the option that some changes lead to; returns ``None`` and records why if they do not help.

        Unless it ``accumulates``, its batch may be smaller than today's; ``accumulated`` makes up for that.
        """
        of_recipe = tuple(change for change in changes if change != "shorter")
        request = self._refusing(changes, lambda: self.changed(of_recipe))
        if request is None:
            return None
        if least_bytes(request, self._inquiry.info) > self._inquiry.info.capacity_bytes:
            self._inquiry.refuse(changes, self._why_not(request), does_not_fit=True)
            return None
        must_run = not NEED_BITSANDBYTES.isdisjoint(changes) and self._inquiry.gpu is not None
        if must_run and importlib.util.find_spec("bitsandbytes") is None:
            self._inquiry.refuse(changes, "needs bitsandbytes, which is not installed.")
            return None
        asked = replace(request, seq_len=seq_len) if seq_len else request
        found = self._refusing(changes, lambda: self._try(changes, asked, accumulates=accumulates))
        return found[1] if found else None

    def accumulated(self, option: TrainingOption) -> TrainingOption | None:
        """Returns the option with today's effective batch, if that is larger than its batch; ``None`` as ``option``."""
        if not self._splits(option.recipe, option.batch_size):
            return option
        request = self._inquiry.request_of(option)
        found = self._refusing(option.changes, lambda: self._in_many_batches(option.changes, request))
        if found is not None:
            self._tell(found)
        return replace(found, slower=option.slower) if found is not None else None

    def _refusing(self, changes: tuple[str, ...], look: Callable[[], Found | None]) -> Found | None:
        """Returns what is found; returns ``None`` and records why if the changes cannot be made."""
        try:
            return self._inquiry.retried(look)
        except WorkerLostError as error:
            self._inquiry.miss(changes, error)
        except (UsageError, CannotPredictError, WorkerError) as error:
            self._inquiry.refuse(changes, error.reason)
        except MemoryMarkError:
            raise
        except Exception as error:  # a crash that a worker would have caught
            said = str(error).strip().partition("\n")[0]
            self._inquiry.refuse(changes, f"crashes with {type(error).__name__}: {said}")
        return None

    def _try(
        self, changes: tuple[str, ...], request: Request | None = None, *, accumulates: bool = True
    ) -> tuple[Trial | None, TrainingOption] | None:
        """Returns a trial at today's batch, if that fits, and the option at its best batch; ``None`` if none fits."""
        request = request or self._today
        with self._inquiry.opened(self._inquiry.screened(request)) as probe:
            if not changes:
                self.know(probe)
            found = self._analyzed(changes, request, probe)
            if found is None or (changes and not self._keeps_margin(changes, found)):
                return None
            now = found.current
            splits = accumulates and self._splits(request.recipe, _best(found).batch_size)
            option = None if splits else self._in_one_batch(changes, request, found, probe)
        if splits:
            option = self._in_many_batches(changes, request)
        if option is None:
            return None
        if not changes and self._inquiry.question.request.recipe.accumulation_steps > 1:
            now = self._at(self._inquiry.question.request, self._inquiry.question.current_batch_size)
        self._tell(option)
        return now if now and now.fits else None, option

    def _splits(self, recipe: Recipe, batch_size: int) -> bool:
        """Tells whether today's effective batch takes several batches of this size."""
        keeps = self._keeps_effective_batch and recipe.can_accumulate
        return keeps and batch_size < self.share_of(recipe)

    def share_of(self, recipe: Recipe) -> int:
        """Returns how much of today's effective batch one of the batches has that are trained on at once, at least."""
        return -(-self._effective_batch // recipe.data_parallel)

    def _tell(self, option: TrainingOption) -> None:
        rate = f"{format_rate(option.trial.rate)} {option.trial.rate_unit}"
        self._inquiry.tell("advise", f"{option.title}: {rate}, {option.source}")

    def _analyzed(self, changes: tuple[str, ...], request: Request, probe: Probe) -> Analysis | None:
        """Analyzes a request; returns ``None`` and records why if it does not fit."""
        question = replace(self._inquiry.question, request=request, advise=False)
        try:
            return analyze_with(question, probe, ignore, time.perf_counter())
        except DoesNotFitError as error:
            self.missing_bytes[changes] = error.shortfall_bytes or 0
            cut = f" with {request.seq_len} tokens" if "shorter" in changes else ""
            self._inquiry.refuse(changes, self._why_not(request, cut), does_not_fit=True)
            return None

    def _why_not(self, request: Request, cut: str = "") -> str:
        least = least_bytes(request, self._inquiry.info)
        if least > self._inquiry.info.capacity_bytes:
            parts = "the frozen weights" if request.recipe.lora else "weights, gradients and optimizer state"
            return f"does not fit: {parts} alone take {format_bytes(least)}{cut}."
        accumulates = request.recipe.accumulation_steps > 1
        return f"does not fit even at batch 1{', with gradient accumulation' if accumulates else ''}{cut}."

    def _keeps_margin(self, changes: tuple[str, ...], found: Analysis) -> bool:
        """Tells whether some batch leaves the margin free; records it if none does."""
        if found.recommended is None:
            self._inquiry.refuse(changes, f"leaves less than {found.margin:.0%} of the memory free.", does_not_fit=True)
        return found.recommended is not None

    def _in_one_batch(
        self, changes: tuple[str, ...], request: Request, found: Analysis, probe: Probe
    ) -> TrainingOption:
        """Returns the option at its best batch, or at today's effective batch."""
        trial, same = _timed(found, probe, _best(found).batch_size), self.share_of(request.recipe)
        # Keeping today's effective batch is worth a little speed, and any speed if today's training does not fit.
        if same < trial.batch_size:
            kept = _timed(found, probe, same)
            is_safe = kept.fits and kept.peak_reserved_bytes <= found.safe_bytes
            if is_safe and (not self._fits_today or speed(kept) >= KEEPS_BATCH * speed(trial)):
                trial = kept
        return self._option_of(changes, request, found, trial)

    def _in_many_batches(self, changes: tuple[str, ...], request: Request) -> TrainingOption | None:
        """Returns the option with gradients accumulated up to today's effective batch, which keeps them in memory."""
        several = _accumulating(request, 2)  # more steps take no more memory
        with self._inquiry.opened(self._inquiry.screened(several)) as probe:
            found = self._analyzed(changes, several, probe)
        if found is None or not self._keeps_margin(changes, found):
            return None
        batch_size, steps = split(self.share_of(request.recipe), _best(found).batch_size)
        request = _accumulating(request, steps)
        return self._option_of(changes, request, found, self._at(request, batch_size))

    def _at(self, request: Request, batch_size: int) -> Trial:
        with self._inquiry.opened(self._inquiry.screened(request)) as probe:
            return probe.measure(batch_size)

    def _option_of(self, changes: tuple[str, ...], request: Request, found: Analysis, trial: Trial) -> TrainingOption:
        steps, todays_steps = (one.request.recipe.accumulation_steps for one in (found, self._inquiry.question))
        now = found.current if steps == todays_steps else None  # else they cannot be compared
        return TrainingOption(
            changes=changes or ("batch",),
            recipe=replace(request.recipe, compile=self._today.recipe.compile),
            batch_size=trial.batch_size,
            accumulation_steps=request.recipe.accumulation_steps,
            seq_len=request.seq_len if "shorter" in changes else None,
            max_batch_size=found.max_batch_size,
            predicted=trial if trial.source == "predicted" else None,
            measured=trial if trial.source == "measured" else None,
            at_todays_batch=now.samples_per_second if now and now.fits else None,
        )

    def know(self, probe: Probe) -> None:
        """Keeps what the probe of today's training says about the model and the GPU."""
        self._inquiry.info = probe.info
        self.facts = facts_of(probe.info)


def split(effective_batch: int, largest: int) -> tuple[int, int]:
    """Returns the batch size and the accumulation steps that make up an effective batch.

    If ``largest`` holds it all, returns that and one step. If no divisor comes close to ``largest``, the effective
    batch grows by a few samples.
    """
    if largest >= effective_batch:
        return largest, 1
    even = max(size for size in range(1, largest + 1) if effective_batch % size == 0)
    if 2 * even >= largest:
        return even, effective_batch // even
    steps = -(-effective_batch // largest)
    return -(-effective_batch // steps), steps


def _gains_little(option: TrainingOption, before: TrainingOption) -> str:
    percent = 100 * (option.samples_per_second / before.samples_per_second - 1)
    return f"{'gains' if percent >= 0 else 'loses'} {abs(percent):.1f} %, {option.source}."


def _best(found: Analysis) -> Trial:
    return found.recommended or found.maximum


def _accumulating(request: Request, steps: int) -> Request:
    return replace(request, recipe=replace(request.recipe, accumulation_steps=steps))


def _timed(found: Analysis, probe: Probe, batch_size: int) -> Trial:
    """Returns the timed trial at a batch size, measuring or predicting it if that has not happened yet."""
    trial = found.at(batch_size)
    return trial if trial is not None and trial.samples_per_second else probe.measure(batch_size)
