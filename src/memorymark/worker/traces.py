"""Keeps the traces of earlier questions, so that asking again for another GPU, price or margin is quick."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from memorymark.catalog import GpuEntry
from memorymark.devices.machine import foundation, versions
from memorymark.prediction.tracing.garbage import no_full_collections
from memorymark.prediction.tracing.kept_traces import KeptTraces
from memorymark.prediction.tracing.sharing import as_traced, generation
from memorymark.question.request import Request
from memorymark.question.target import Target

if TYPE_CHECKING:
    from memorymark.prediction.tracing.fake_step import TracedStep

# How many traces are kept in memory.
MOST_KEPT = 4


class Traces:
    """The traced steps of requests: a few in memory and, if ``on_disk`` is set, many more on disk."""

    def __init__(self) -> None:
        self.on_disk: KeptTraces | None = None
        self._kept: dict[str, TracedStep] = {}
        self._code_version = 0

    def code_may_have_changed(self) -> None:
        """Traces requests that run a user's code anew from here on."""
        self._code_version += 1

    def of(self, asked: Request, gpu: GpuEntry) -> TracedStep:
        """Returns the step of a request as GPUs of this generation run it, traced once."""
        from memorymark.models.workloads import workload_of
        from memorymark.prediction.tracing.fake_step import trace_training

        found = self.find(asked, gpu)
        if found is not None:
            return found
        with no_full_collections():
            step = trace_training(workload_of(asked), as_traced(asked.recipe), gpu.capability)
            key = self.key(asked, gpu)
            self._remember(key, step)
            if self.on_disk is not None and not asked.runs_code:
                from memorymark.prediction.tracing.trace_document import to_document

                self.on_disk.keep(_hash(key), to_document(step))
        return step

    def find(self, asked: Request, gpu: GpuEntry) -> TracedStep | None:
        """Returns the trace of an earlier question that fits this one, or ``None``."""
        key = self.key(asked, gpu)
        if key in self._kept:
            self._kept[key] = self._kept.pop(key)  # the most recently used comes last
            return self._kept[key]
        step = self._find_on_disk(_hash(key)) if not asked.runs_code else None
        if step is not None:
            self._remember(key, step)
        return step

    def _find_on_disk(self, name: str) -> TracedStep | None:
        document = self.on_disk.find(name) if self.on_disk is not None else None
        if self.on_disk is None or document is None:
            return None
        from memorymark.prediction.tracing.trace_document import from_document

        try:
            with no_full_collections():
                return from_document(document)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # the file was changed
            self.on_disk.drop(name)
            return None

    def _remember(self, key: str, step: TracedStep) -> None:
        self._kept[key] = step
        for oldest in list(self._kept)[:-MOST_KEPT]:
            del self._kept[oldest]

    def key(self, asked: Request, gpu: GpuEntry) -> str:
        """Returns a key that requests with the same trace share: model, sample, recipe, GPU generation and code."""
        from memorymark.models.workloads import published_config

        version = self._code_version if asked.runs_code else 0
        traced = replace(asked, target=Target(), recipe=as_traced(asked.recipe))
        depends_on = [versions(), foundation(), published_config(asked)]
        return json.dumps([generation(gpu.capability), version, traced.to_dict(), depends_on])


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
