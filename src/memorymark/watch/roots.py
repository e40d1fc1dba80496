"""Hooks only the modules that a script calls directly, so that inner layers cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from memorymark.watch.layout import Witness, witness, witnesses_in
from memorymark.watch.modules import hookable
from memorymark.watch.weak import WeakList


class RootHooks:
    """Finds out which modules are called from outside, then listens to these.

    ``begins`` and ``ends`` are called for their forward passes in training mode, with the inputs and the module's id,
    and with the outputs; ``evaluates`` is called for one in evaluation mode. ``learning`` is true until the
    called modules are known, ``heard`` once a forward pass was heard to its end meanwhile. ``witnesses`` tell what
    layers with a known layout were given meanwhile.
    """

    def __init__(
        self, begins: Callable[[Any, int], None], ends: Callable[[Any], None], evaluates: Callable[[], None]
    ) -> None:
        self.called: WeakList[nn.Module] = WeakList()
        self._begins, self._ends, self._evaluates = begins, ends, evaluates
        self.witnesses: list[Witness] = []
        self._handles: list[Any] = []
        self.learning = self.heard = False
        self._hooked: WeakList[nn.Module] = WeakList()
        self._witnesses: WeakList[nn.Module] = WeakList()
        self._depth = 0

    def learn(self, modules: list[nn.Module]) -> None:
        """Listens to these and some inner modules for one step, because a container may never be called itself."""
        self.called = WeakList()
        self.learning = True
        self.heard, self.witnesses = False, []
        self._hook(hookable(modules), witnesses_in(modules))

    def settle(self) -> bool:
        """Ends a step; returns True if the called modules were learned in it."""
        self._depth = 0
        if not self.learning:
            return False
        self.learning = False
        self.remove()
        self._hook(list(self.called))
        return True

    def attach(self) -> None:
        """Listens to the called modules again."""
        if not self._handles:
            self._depth = 0
            self._hook(list(self.called))

    def remove(self) -> None:
        """Stops listening."""
        self.pause()
        self._hooked, self._witnesses = WeakList(), WeakList()

    def pause(self) -> None:
        """Leaves the modules as the script made them until ``resume``, such as while they are saved."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def resume(self) -> None:
        """Listens again to what it listened to before the pause."""
        self._hook(list(self._hooked), list(self._witnesses))

    def _hook(self, modules: list[nn.Module], witnesses: Sequence[nn.Module] = ()) -> None:
        self._hooked, self._witnesses = WeakList(modules), WeakList(witnesses)
        for layer in witnesses:
            self._handles.append(layer.register_forward_pre_hook(PrivateHook(self._inside)))
        for module in modules:
            before, after = PrivateHook(self._before), PrivateHook(self._after)
            self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            self._handles.append(module.register_forward_hook(after, always_call=True))

    def _inside(self, layer: nn.Module, args: Any) -> None:
        told = witness(layer, args)
        if told is not None and told not in self.witnesses and torch.is_grad_enabled():
            self.witnesses.append(told)

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth == 1 and not module.training:
            self._evaluates()
        elif self._depth == 1:
            if self.learning:
                self.called.append(module)
            self._begins((*args, *kwargs.values()), id(module))

    def _after(self, module: nn.Module, _args: Any, output: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0 and module.training:
            self.heard = True
            self._ends(output)


class PrivateHook:
    """A module's hook that is left out when the script copies or saves the module."""

    _torchdynamo_disable = True
    __name__ = "memorymark"

    def __init__(self, hook: Callable[..., None]) -> None:
        self._hook = hook

    def __call__(self, *args: Any) -> None:
        """Calls the hook."""
        self._hook(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        # A builtin that takes any arguments and does nothing: a saved model must load without MemoryMark.
        return getattr, (nullcontext(), "__exit__")
