"""Finds the least change with which each family of fine-tuning fits: all weights, LoRA, QLoRA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from memorymark.advice.fitting import changes_of_family, families_from, logits_bytes, only_chunks
from memorymark.advice.inquiry import Inquiry, speed
from memorymark.advice.longest import longest_that_fits
from memorymark.advice.screening import Screening
from memorymark.errors import WorkerLostError
from memorymark.question.changes import OFFLOADING
from memorymark.question.request import Request
from memorymark.results.family import Family, FamilyId
from memorymark.results.option import TrainingOption

# A change that makes steps this much slower is kept only if the next is slower still.
SLOW = 0.2
# The traces of this many earlier recipes are still there, so timing those takes no other trace.
KEPT = 3


class Families:
    """The families of a language model, from today's on; there are none for other models.

    Recipes are tried from the least change on, and only if their weights, gradients and optimizer state fit.
    """

    def __init__(self, inquiry: Inquiry, screening: Screening) -> None:
        self._inquiry, self._screening = inquiry, screening
        self._least: dict[FamilyId, TrainingOption | None] = {}

    @cached_property
    def ids(self) -> tuple[FamilyId, ...]:
        """Which families there are; known once today's training was screened."""
        if self._inquiry.today.recipe.gpus > 1:
            return ()
        return families_from(self._inquiry.today, self._inquiry.info)

    def smaller(self) -> Iterator[TrainingOption]:
        """Yields the least change of each family, where today's recipe does not fit."""
        for family in self.ids:
            option = self._least_of(family)
            if option is not None:
                yield option

    def found(self, options: list[TrainingOption]) -> tuple[Family, ...]:
        """Returns every family, with the measured option in place of the predicted one if it has run since."""
        ran = {option.changes: option for option in options}
        families = []
        for family in self.ids:
            option = self._least_of(family)
            if option is None:
                families.append(Family(id=family, why_not=self._why_not(family)))
                continue
            longest = self._longest(option)
            families.append(Family(id=family, option=ran.get(option.changes, option), longest_seq_len=longest))
        return tuple(families)

    def _least_of(self, family: FamilyId) -> TrainingOption | None:
        if family not in self._least:
            self._least[family] = self._tried(family)
        return self._least[family]

    def _tried(self, family: FamilyId) -> TrainingOption | None:
        """Returns the first recipe of a family that fits."""
        screening = self._screening
        if family == self.ids[0] and screening.start is not None:
            return screening.start
        ladder = changes_of_family(family, self._inquiry.today, screening.facts)
        roomy = [changes for changes in ladder if screening.is_roomy(changes)]
        slow: TrainingOption | None = None
        tried: list[tuple[str, ...]] = []
        for changes in roomy or ladder[-1:]:  # the last is refused, and says why
            if (slow is not None and not OFFLOADING.isdisjoint(changes)) or self._cannot_fit(changes):
                continue  # copying more makes nothing faster
            option = screening.option(changes, accumulates=False)
            tried.append(changes)
            if option is None:
                continue
            option = replace(option, slower=self._slowed(option, tried[:-1][-KEPT:]))
            if slow is None and max(option.slower.values(), default=0) > SLOW:
                slow = option  # perhaps the next saves memory at a lower price
                continue
            found = self._fastest([option] if slow is None else [slow, option])
            if found is not None:
                return found
            slow = None
        found = self._fastest([slow]) if slow is not None else None
        return found or (self._shorter(roomy[-1]) if roomy else None)

    def _cannot_fit(self, changes: tuple[str, ...]) -> bool:
        """Tells, and records, that a chunked loss cannot make up for what changes lacked without it."""
        logits, missing = logits_bytes(self._inquiry.info), self._screening.missing_bytes
        known = [lacked for before, lacked in missing.items() if only_chunks(changes, before)]
        if max(known, default=0) <= logits:
            return False
        missing[changes] = max(known) - logits
        self._inquiry.refuse(changes, "does not fit even at batch 1.", does_not_fit=True)
        return True

    def _fastest(self, options: list[TrainingOption]) -> TrainingOption | None:
        """Returns the fastest option whose gradients can be accumulated up to today's effective batch."""
        ranked = sorted(options, key=lambda option: -speed(option.trial))
        return next(filter(None, map(self._screening.accumulated, ranked)), None)

    def _slowed(self, option: TrainingOption, tried: list[tuple[str, ...]]) -> dict[str, float]:
        """Returns what changes add to a step's time, by comparing what was tried with and without one of them."""
        slower: dict[str, float] = {}
        seconds = {option.changes: option.trial.step_seconds or 0.0}
        for change in OFFLOADING.intersection(option.changes):  # these are timed without it, although that does not fit
            tried = [*tried, tuple(one for one in option.changes if one != change)]
        parts = [changes for changes in tried if set(changes) < set(option.changes)]
        for with_it in (option.changes, *reversed(parts)):
            for without in parts:
                added = set(with_it) - set(without)
                if len(added) == 1 and set(without) < set(with_it) and added.isdisjoint(slower):
                    for one in {without, with_it} - set(seconds):
                        seconds[one] = self._seconds(one, option.batch_size)
                    before, after = seconds[without], seconds[with_it]
                    slower |= {added.pop(): after / before - 1} if before and after else {}
        return slower

    def _seconds(self, changes: tuple[str, ...], batch_size: int) -> float:
        """Returns the time of a step with some changes, whether or not it fits; 0 if that is unknown."""
        request = self._screening.changed(changes)
        if request is None:
            return 0.0
        with self._inquiry.opened(self._inquiry.screened(request)) as probe:
            return probe.measure(batch_size).step_seconds or 0.0

    def _shorter(self, changes: tuple[str, ...]) -> TrainingOption | None:
        """Returns the option with the longest samples that fit with these changes, if today's are too long."""
        request = self._screening.changed(changes)
        tokens = self._longest_of(changes, request) if request is not None else None
        return self._screening.option((*changes, "shorter"), seq_len=tokens) if tokens else None

    def _longest(self, option: TrainingOption) -> int | None:
        if option.seq_len:
            return option.seq_len
        request = self._inquiry.request_of(replace(option, recipe=replace(option.recipe, accumulation_steps=1)))
        self._inquiry.tell("advise", f"{option.recipe_title}: looking for the longest sequence")
        return self._longest_of(option.changes, request)

    def _longest_of(self, changes: tuple[str, ...], request: Request) -> int | None:
        tokens = self._screening.facts.tokens
        try:
            return self._inquiry.retried(lambda: longest_that_fits(self._inquiry, request, tokens))
        except WorkerLostError as error:
            self._inquiry.miss(changes, error)
            return None

    def _why_not(self, family: FamilyId) -> str:
        """Returns why the largest change of a family does not fit."""
        ladder = set(changes_of_family(family, self._inquiry.today, self._screening.facts))
        whys = [one.why for one in self._inquiry.refused if one.changes in ladder]
        return whys[-1] if whys else "could not be tried."
