"""The cases of a grid: questions, each with the place that can answer it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from memorymark.catalog import find_gpu
from memorymark.devices.machine import foundation, versions
from memorymark.history import new_job
from memorymark.prediction.tracing.sharing import as_traced, generation
from memorymark.question.question import Question
from memorymark.question.target import AUTO, Target


@dataclass(frozen=True)
class Place:
    """What a case needs: nothing but a CPU core if it is predicted, else a ``device``, perhaps a certain ``gpu``."""

    device: str | None = None
    gpu: str | None = None

    @property
    def measures(self) -> bool:
        """Whether steps are run there."""
        return self.device is not None


PREDICTED = Place()


@dataclass(frozen=True)
class Case:
    """One question of a grid. ``options`` are those that were given for it."""

    number: int
    question: Question
    place: Place
    options: dict[str, Any]

    @cached_property
    def key(self) -> str:
        """The key of its job in the history.

        It is that of the same question asked alone, except for a GPU that it must be measured on: such an answer holds
        for that GPU, whichever machine has it.
        """
        job = new_job(self.question, "cli")
        if self.place.gpu is None:
            return job.key
        asked = json.dumps([job.asked, versions(), foundation(), "measured on", self.place.gpu], sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()

    @cached_property
    def trace(self) -> str:
        """What cases that share a trace have in common; measured ones share the model that is built."""
        request = self.question.request
        if self.place.measures:
            shared = replace(request, target=Target())
            return json.dumps([self.place.device, self.place.gpu, shared.to_dict()], sort_keys=True)
        shared = replace(request, target=Target(), recipe=as_traced(request.recipe))
        gpu = find_gpu(request.target.gpu or "")
        return json.dumps([generation(gpu.capability), shared.to_dict()], sort_keys=True)

    def on(self, device: str | None) -> Question:
        """Returns the question to answer on a device; a predicted one stays the same."""
        if device is None or not self.place.measures:
            return self.question
        request = self.question.request
        target = replace(request.target, device=device) if request.target.device in (AUTO, "cuda") else request.target
        return replace(self.question, request=replace(request, target=target))


def place_of(target: Target, *, measured_on: str | None) -> Place:
    """Returns where a target's steps are run or predicted; an open one is measured on any GPU."""
    if measured_on is not None:
        return Place("cuda", measured_on)
    if target.gpu is not None:
        return PREDICTED
    return Place("cuda" if target.device == AUTO else target.device)
