"""Counts a training: the current step, and all steps since its optimizer took the first one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from memorymark.watch.batch_sizes import BatchSizes, samples_of
from memorymark.watch.batches import SeenBatch
from memorymark.watch.feeds import Feeds
from memorymark.watch.forwards import MOST_MICRO_BATCHES, Forwards
from memorymark.watch.modules import any_trains
from memorymark.watch.statistics import StepSums
from memorymark.watch.weak import WeakList

# If the first optimizer takes no step while another takes this many, it is done.
OTHERS_TAKE_OVER = 8
KINDS_OF_STEPS = 16


@dataclass
class StepSoFar:
    """What has happened since the last optimizer step.

    ``samples`` are counted by dimension, ``size`` is that of the first batch. ``foreign`` are batches of data sets that
    are not known to feed the training. A step is disturbed if something else ran in between: its time does not count.
    """

    batches: int = 0
    backwards: int = 0
    samples: Counter[int] = field(default_factory=Counter)
    size: SeenBatch | None = None
    forwards: Forwards = field(default_factory=Forwards)
    waiting_seconds: float = 0.0
    between_seconds: float = 0.0
    foreign: list[SeenBatch] = field(default_factory=list)
    is_disturbed: bool = False

    def keep_foreign(self, size: SeenBatch | None) -> None:
        """Keeps the size of a batch that may turn out to be the training's."""
        if size is not None and len(self.foreign) < MOST_MICRO_BATCHES:
            self.foreign.append(size)

    def micro_batches(self, *, loads: bool) -> int:
        """Returns how many batches went into the step, by the data loader or by the forward passes."""
        return self.batches if loads else self.forwards.batches(self.backwards)


class Phase:
    """A training with one optimizer that counts steps; another fold or another stage is another phase.

    References are weak, so that objects the script drops are freed.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.optimizers: WeakList[torch.optim.Optimizer] = WeakList()
        self.modules: WeakList[nn.Module] = WeakList()
        self.feeds = Feeds()
        self.trains_in_eval_mode = False
        self.sizes = BatchSizes()
        self._samples: Counter[int] = Counter()
        self._sums: dict[int, StepSums] = {}
        self._silent_steps = 0
        self._others: Counter[int] = Counter()

    @property
    def _counting(self) -> torch.optim.Optimizer | None:
        return next(iter(self.optimizers), None)

    def is_counted_by(self, optimizer: torch.optim.Optimizer) -> bool:
        """Tells whether this optimizer, the first one seen, counts the steps."""
        return self._counting is optimizer

    def steps_ended_by(self, optimizer: torch.optim.Optimizer) -> int:
        """Returns how many steps an update ends: 0 for an optimizer other than the one that counts.

        If another optimizer takes over, its last few updates are only now known to be steps.
        """
        if self._counting is None or self._counting is optimizer:
            return 1
        self._others[id(optimizer)] += 1
        taken = self._others[id(optimizer)]
        return taken if taken >= OTHERS_TAKE_OVER else 0

    def count_by(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has ended a step."""
        self._others.clear()
        self.optimizers.append(optimizer)

    @property
    def is_in_eval_mode(self) -> bool:
        """Tells whether the whole model is in evaluation mode, unless it is trained in that mode."""
        modules = list(self.modules)
        return bool(modules) and not self.trains_in_eval_mode and not any_trains(modules)

    def take(self, size: SeenBatch, step: StepSoFar) -> None:
        """A batch of this size, from a data loader, goes into the step."""
        self.sizes.see(size)
        step.samples.update(samples_of([size]))

    def adopt_foreign(self, step: StepSoFar) -> None:
        """Counts batches that seemed foreign as the step's: a new epoch's loader may have a new data set."""
        step.batches = len(step.foreign)
        for size in step.foreign:
            self.sizes.count(size)
        step.samples.update(samples_of(step.foreign))

    def take_forwards(self, step: StepSoFar) -> None:
        """Counts what the step's modules were called with, now that it is known how often."""
        sizes = step.forwards.sizes(step.backwards)
        for size in sizes:
            self.sizes.see(size)
        step.samples.update(samples_of(sizes))

    def add_time(self, step: StepSoFar, seconds: float, *, loads: bool) -> None:
        """Adds the time of a step to those of its kind."""
        kind = step.micro_batches(loads=loads)
        if kind in self._sums or len(self._sums) < KINDS_OF_STEPS:
            self._sums.setdefault(kind, StepSums()).add(seconds, step.waiting_seconds, step.between_seconds)

    def count_samples(self, step: StepSoFar, steps: int) -> None:
        """Counts the samples of a step, or of the last of several.

        If hooks on the model report batches, the steps before they were attached are assumed to be like the next.
        """
        if any(step.samples.values()):
            silent, self._silent_steps = self._silent_steps, 0
            for dimension, samples in step.samples.items():
                self._samples[dimension] += samples * (1 + silent)
        elif self.sizes.last is None:
            self._silent_steps += steps

    @property
    def samples(self) -> int:
        """The samples of all steps."""
        return self._samples[self.sizes.dimension]

    @property
    def micro_batches(self) -> int:
        """The most common number of batches in a step."""
        return max(max(self._sums, key=lambda kind: self._sums[kind].steps, default=1), 1)

    def facts(self, *, loads: bool) -> dict[str, Any]:
        """Returns the steps' part of an observation; with a data loader, waiting is the time spent in it."""
        sums = self._sums.get(self.micro_batches) or next(iter(self._sums.values()), None)
        return {
            "batch_size": self.sizes.usual,
            "batch_dimension": self.sizes.dimension,
            "batch_basis": self.sizes.basis,
            "batch_is_uncertain": self.sizes.is_uncertain,
            "micro_batches": self.micro_batches,
            "timed_steps": sums.steps if sums else 0,
            "step_seconds": sums.seconds / sums.steps if sums else None,
            "median_step_seconds": sums.median_seconds if sums else None,
            "waiting_seconds": sums.waiting_seconds / sums.steps if sums and loads else None,
            "between_seconds": sums.between_seconds / sums.steps if sums and not loads else None,
        }
