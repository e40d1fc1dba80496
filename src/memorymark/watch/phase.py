"""Counts a training: the current step, and all steps since its optimizer took the first one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from memorymark.watch.batches import SeenBatch
from memorymark.watch.feeds import Feeds
from memorymark.watch.modules import any_trains
from memorymark.watch.statistics import StepSums, count_up
from memorymark.watch.weak import WeakList

# If the first optimizer takes no step while another takes this many, it is done.
OTHERS_TAKE_OVER = 8
KINDS_OF_STEPS = 16
MOST_MICRO_BATCHES = 1024


@dataclass
class StepSoFar:
    """What has happened since the last optimizer step.

    ``foreign`` are batches of data sets that are not known to feed the training. A step is disturbed if something else
    ran in between, so its time does not count.
    """

    batches: int = 0
    samples: int = 0
    forwards: Counter[int] = field(default_factory=Counter)
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
        # If several modules take turns, as in a GAN, the one called least often counts.
        return self.batches if loads else min(self.forwards.values(), default=0)


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
        self.most_elements = 0
        self._last_size: SeenBatch | None = None
        self._sizes: Counter[int] = Counter()
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

    def see_size(self, size: SeenBatch) -> None:
        """A batch of this size goes into the step."""
        self._last_size = size
        self.most_elements = max(self.most_elements, size.elements)
        count_up(self._sizes, size.samples)

    def forget_sizes_before(self) -> None:
        """At the first step, forgets earlier batches but the last: they may have been an evaluation's."""
        if self._last_size is not None:
            self._sizes = Counter({self._last_size.samples: 1})
            self.most_elements = self._last_size.elements

    def adopt_foreign(self, step: StepSoFar) -> None:
        """Counts batches that seemed foreign as the step's: a new epoch's loader may have a new data set."""
        step.batches = len(step.foreign)
        for size in step.foreign:
            step.samples += size.samples
            count_up(self._sizes, size.samples)

    def add_time(self, step: StepSoFar, seconds: float, *, loads: bool) -> None:
        """Adds the time of a step to those of its kind."""
        kind = step.micro_batches(loads=loads)
        if kind in self._sums or len(self._sums) < KINDS_OF_STEPS:
            self._sums.setdefault(kind, StepSums()).add(seconds, step.waiting_seconds, step.between_seconds)

    def samples_of(self, step: StepSoFar, steps: int) -> int:
        """Returns the samples to count for a step, or for the last of several.

        If hooks on the model report batches, the steps before they were attached are assumed to be like the next.
        """
        if step.samples:
            silent, self._silent_steps = self._silent_steps, 0
            return step.samples * (1 + silent)
        if self._last_size is None:
            self._silent_steps += steps
        return 0

    @property
    def micro_batches(self) -> int:
        """The most common number of batches in a step."""
        return max(max(self._sums, key=lambda kind: self._sums[kind].steps, default=1), 1)

    def facts(self, *, loads: bool) -> dict[str, Any]:
        """Returns the steps' part of an observation; with a data loader, waiting is the time spent in it."""
        sums = self._sums.get(self.micro_batches) or next(iter(self._sums.values()), None)
        return {
            "batch_size": self._sizes.most_common(1)[0][0] if self._sizes else None,
            "micro_batches": self.micro_batches,
            "timed_steps": sums.steps if sums else 0,
            "step_seconds": sums.seconds / sums.steps if sums else None,
            "median_step_seconds": sums.median_seconds if sums else None,
            "waiting_seconds": sums.waiting_seconds / sums.steps if sums and loads else None,
            "between_seconds": sums.between_seconds / sums.steps if sums and not loads else None,
        }
