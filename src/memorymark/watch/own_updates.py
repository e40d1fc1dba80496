"""Finds updates that a loop makes itself, without an optimizer of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from memorymark.watch.weak import WeakList

# Of so many parameters the versions are compared, and of each so many values.
WATCHED, VALUES = 4, 64
# After so many backward passes without an optimizer's step the modules are searched for, once.
SEARCH_AFTER = 2


class Candidate(NamedTuple):
    """A module that may be trained, its gradients before a backward pass, and whether these were none or zero."""

    module: WeakList[nn.Module]
    gradients: list[tuple[int, int]]
    had_none: bool


class OwnUpdates:
    """Stands in for the optimizer of a loop that has none; holds no module alive."""

    shown_as = "own updates"
    defaults: ClassVar[dict[str, Any]] = {}
    state: ClassVar[dict[Any, Any]] = {}

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = WeakList(modules)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The trained parameters, as an optimizer has them."""
        parameters = [p for module in self._modules for p in module.parameters() if p.requires_grad]
        return [{"params": parameters}] if parameters else []


class UpdateFinder:
    """Sees that a step has ended by its gradients: they were changed or dropped since the backward pass.

    That counts only if the parameters' values changed too. They are compared once, which waits for the GPU, and where
    an evaluation or the end follows: their versions stay as they are where ``parameter.data`` is changed.
    """

    def __init__(self, search: Callable[[], list[nn.Module]]) -> None:
        self.updates: OwnUpdates | None = None
        self._search = search
        self._is_active = True
        self._backwards = 0
        self._parameters: WeakList[Tensor] = WeakList()
        self._modules: WeakList[nn.Module] = WeakList()
        self._versions: list[tuple[int, int, int]] | None = None
        self._values: list[Tensor] = []
        self._earlier_steps = 0
        self._candidates: list[Candidate] = []

    @property
    def is_watching(self) -> bool:
        """Whether the modules were searched for."""
        return self._is_active and bool(list(self._parameters))

    def stop(self) -> None:
        """An optimizer has taken a step: the loop leaves updates to it."""
        self._is_active = False
        self._values = []

    def backward_begins(self) -> None:
        """A backward pass begins, and no update was found since the one before."""
        self._backwards += 1
        if self._is_active and self._backwards == SEARCH_AFTER:
            self._candidates = [Candidate(WeakList([m]), _gradients_of(m), _has_none(m)) for m in self._search()]

    def backward_ended(self) -> None:
        """A backward pass has ended: from here on gradients change only for an update."""
        candidates, self._candidates = self._candidates, []
        if candidates and self._is_active:
            self._start(candidates)
        if self.is_watching:
            self._versions = self._versions_now()

    def steps_made(self) -> int:
        """Returns how many steps have ended since it was asked last."""
        if self._versions is None or not self.is_watching or self._versions_now() == self._versions:
            return 0
        if self.updates is None and not self._confirmed():
            self._versions = None
            return 0
        return self._made()

    def steps_by_values(self) -> int:
        """Returns the steps that are seen by the parameters' values only: nothing touched the gradients afterwards."""
        if self._versions is None or not self.is_watching or self.updates is None:
            return 0
        return self._made() if self._changed() else 0

    def _start(self, candidates: Sequence[Candidate]) -> None:
        """Watches the modules that the backward pass has given gradients."""
        given = [one for one in candidates for module in one.module if _gradients_of(module) != one.gradients]
        trained = [p for one in given for module in one.module for p in _trained(module)]
        if not trained:
            return
        chosen = sorted(trained, key=Tensor.numel)[:: max(len(trained) // WATCHED, 1)][:WATCHED]
        self._parameters = WeakList(chosen)
        self._modules = WeakList(module for one in given for module in one.module)
        self._values = self._values_now()
        # Where the gradients of the pass before were gone when this one began, that was a step of its own.
        self._earlier_steps = int(all(one.had_none for one in given))

    def _made(self) -> int:
        steps, self._earlier_steps = 1 + self._earlier_steps, 0
        self._versions = None
        self._values = self._values_now()
        return steps

    def _confirmed(self) -> bool:
        if not self._changed():
            return False
        self.updates = OwnUpdates(list(self._modules))
        return True

    def _changed(self) -> bool:
        now = self._values_now()
        return len(now) != len(self._values) or any(
            not torch.equal(before, after) for before, after in zip(self._values, now, strict=True)
        )

    def _values_now(self) -> list[Tensor]:
        with torch.no_grad():
            return [p.detach().reshape(-1)[:VALUES].clone() for p in self._parameters]

    def _versions_now(self) -> list[tuple[int, int, int]]:
        return [(p._version, *_gradient_of(p)) for p in self._parameters]


def _trained(module: nn.Module) -> list[Tensor]:
    return [p for p in module.parameters() if p.requires_grad and p.numel()]


def _gradients_of(module: nn.Module) -> list[tuple[int, int]]:
    return [_gradient_of(parameter) for parameter in _trained(module)]


def _gradient_of(parameter: Tensor) -> tuple[int, int]:
    gradient = parameter.grad
    return (0, 0) if gradient is None else (id(gradient), gradient._version)


def _has_none(module: nn.Module) -> bool:
    """Tells whether a module has no gradients, or only zeros; of many, one is looked at."""
    first = next((p.grad for p in _trained(module) if p.grad is not None), None)
    return first is None or not bool(first.any())
