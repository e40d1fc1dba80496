"""Finds the least change with which each family of fine-tuning fits: all weights, LoRA, QLoRA."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import NamedTuple

from memorymark.advice.family_search import FamilySearch
from memorymark.advice.fitting import changes_of_family, families_from
from memorymark.advice.inquiry import Inquiry
from memorymark.advice.screening import Screening
from memorymark.engine.side_by_side import side_by_side
from memorymark.results.family import Family, FamilyId
from memorymark.results.option import TrainingOption
from memorymark.worker.supervisor import KeptWorkers


class _Found(NamedTuple):
    """The least change of a family and the longest sequence that it trains, and the search with what it refused."""

    option: TrainingOption | None
    longest: int | None
    inquiry: Inquiry


class Families:
    """The families of a language model, from today's on; there are none for other models.

    They are looked through side by side, if there are workers for that.
    """

    def __init__(self, inquiry: Inquiry, screening: Screening) -> None:
        self._inquiry, self._screening = inquiry, screening

    @cached_property
    def ids(self) -> tuple[FamilyId, ...]:
        """Which families there are; known once today's training was screened."""
        if self._inquiry.today.recipe.gpus > 1:
            return ()
        return families_from(self._inquiry.today, self._inquiry.info)

    def smaller(self) -> Iterator[TrainingOption]:
        """Yields the least change of each family, where today's recipe does not fit."""
        yield from (option for option, _ in self._least.values() if option is not None)

    def found(self, options: list[TrainingOption]) -> tuple[Family, ...]:
        """Returns every family, with the measured option in place of the predicted one if it has run since."""
        ran = {option.changes: option for option in options}
        families = []
        for family, (option, longest) in self._least.items():
            if option is None:
                families.append(Family(id=family, why_not=self._why_not(family)))
            else:
                families.append(Family(id=family, option=ran.get(option.changes, option), longest_seq_len=longest))
        return tuple(families)

    @cached_property
    def _least(self) -> dict[FamilyId, tuple[TrainingOption | None, int | None]]:
        """Returns the least change of each family and the longest sequence that it trains; notes what was refused."""
        lanes = self._inquiry.lanes()
        try:
            pieces = [partial(self._search, family) for family in self.ids]
            found = side_by_side(pieces, lanes, KeptWorkers.end, self._inquiry.on_event)
        finally:
            for other in lanes[1:]:
                other.close()
        for one in found:
            self._inquiry.refused += one.inquiry.refused
            self._inquiry.faults += one.inquiry.faults
        return {family: (one.option, one.longest) for family, one in zip(self.ids, found, strict=True)}

    def _search(self, family: FamilyId, workers: KeptWorkers) -> _Found:
        inquiry = self._inquiry.apart(workers)
        search = FamilySearch(family, inquiry, self._screening.apart(inquiry))
        start = self._screening.start if family == self.ids[0] else None
        option = start or search.least()
        return _Found(option, search.longest(option) if option is not None else None, inquiry)

    def _why_not(self, family: FamilyId) -> str:
        """Returns why the largest change of a family does not fit."""
        ladder = set(changes_of_family(family, self._inquiry.today, self._screening.facts))
        whys = [one.why for one in self._inquiry.refused if one.changes in ladder]
        return whys[-1] if whys else "could not be tried."
