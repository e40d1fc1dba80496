"""Keeps a sweep in the history while it runs, so that others can watch it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from memorymark.catalog import find_gpu
from memorymark.devices.machine import describe_machine
from memorymark.errors import HistoryError
from memorymark.history import Store, new_job
from memorymark.history.listed_sweep import SIGN_SECONDS, AxisValue, SweepAxis, SweepCase
from memorymark.question.flat import OPTIONS, names_of
from memorymark.question.recipe import Recipe
from memorymark.results.grid import GridCase
from memorymark.sweep.cases import Case

ID_DIGITS = 12
FIRST = ("model", "gpu")
# The options that the words of a case tell.
IN_WORDS = {"model", "gpu", "device", "seq_len", "image_size", "audio_seconds", *names_of(Recipe)}


class KeptSweep:
    """What the history knows of one run of a sweep."""

    def __init__(self, cases: Sequence[Case], store: Store, source: str) -> None:
        self._cases, self._sweeps, self._source = cases, store.sweeps, source
        self.id = sweep_id(cases)
        self._sign_at = 0.0
        self._has_begun = self._is_complete = False

    def begin(self, found: Mapping[int, GridCase]) -> None:
        """Notes all cases, with the answers that were found in the history."""
        asked = [
            SweepCase(case=found.get(case.number) or waiting(case), is_answered=case.number in found)
            for case in self._cases
        ]
        self._sweeps.begin(self.id, self._source, axes_of([one.case for one in asked]), asked)
        self._has_begun, self._is_complete = True, len(found) == len(self._cases)
        self._plan_sign()

    def ended(self, new: Sequence[GridCase], *, is_last: bool) -> None:
        """Notes cases that have just ended, the last ones perhaps."""
        self._sweeps.ended(self.id, new)
        self._is_complete = is_last
        self._plan_sign()

    def give_sign(self) -> None:
        """Notes from time to time that the sweep still runs."""
        if time.monotonic() < self._sign_at:
            return
        with suppress(HistoryError):  # the next sign may succeed, and answers are not lost silently
            self._sweeps.give_sign(self.id)
        self._plan_sign()

    def end(self) -> None:
        """Notes that the run has ended, or was stopped before all cases had."""
        if self._has_begun:
            with suppress(HistoryError):  # it counts as stopped anyway, a little later
                self._sweeps.end(self.id, is_finished=self._is_complete)

    def _plan_sign(self) -> None:
        self._sign_at = time.monotonic() + SIGN_SECONDS


def sweep_id(cases: Sequence[Case]) -> str:
    """Returns the id of a sweep: that of the same cases, in whatever order and file they are asked for."""
    asked = sorted(json.dumps(_identity(case), sort_keys=True) for case in cases)
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:ID_DIGITS]


def _identity(case: Case) -> list[Any]:
    """Returns what makes a case what it is; one measured on whatever is here is another one elsewhere."""
    is_of_here = case.place.measures and case.place.gpu is None
    return [case.question.to_dict(), case.place.device, case.place.gpu, describe_machine() if is_of_here else None]


def axes_of(cases: Sequence[GridCase]) -> tuple[SweepAxis, ...]:
    """Returns the options in which cases differ: model and GPU first, then as they were given."""
    names = sorted(dict.fromkeys(name for one in cases for name in one.options), key=lambda name: name not in FIRST)
    axes = (SweepAxis(name, OPTIONS[name].title, _values(name, cases), name in IN_WORDS) for name in names)
    return tuple(axis for axis in axes if len(axis.values) > 1)


def _values(name: str, cases: Sequence[GridCase]) -> tuple[AxisValue, ...]:
    found: dict[str, AxisValue] = {}
    for one in cases:
        value = one.options.get(name)
        found.setdefault(json.dumps(value, default=str), AxisValue(value, _label(name, value, one)))
    return tuple(found.values())


def _label(name: str, value: Any, case: GridCase) -> str:
    """Returns a value as people call it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    named = {"model": case.model_name, "gpu": case.gpu_name}
    return named.get(name) or str(value)


def waiting(case: Case) -> GridCase:
    """Returns a case that has not been answered yet."""
    return GridCase(number=case.number, options=case.options, **asked(case))


def asked(case: Case) -> dict[str, Any]:
    """Returns what is known of a case without an answer."""
    question = case.question
    gpu = case.place.gpu or question.request.target.gpu
    job = new_job(question, "cli")
    return {
        "model_name": question.request.entry.name,
        "recipe": question.request.recipe.describe(),
        "sample": job.sample_words or "",
        "gpu": gpu,
        "gpu_name": find_gpu(gpu).name if gpu else question.request.target.device,
    }
