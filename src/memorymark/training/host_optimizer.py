"""An optimizer whose state and updates are on the host, as with ZeRO-Offload and torchao's CPUOffloadOptimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.training.host_links import CountedLink
from memorymark.training.offloading import HostCopy

Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class HostOptimizer(torch.optim.Optimizer):
    """Sends each gradient to the host when it is ready, updates the weights' copies there and brings them back.

    ``make`` makes the optimizer of one copy; weights are copied in the first step.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], make: Make, link: CountedLink, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self._make, self._link = make, link
        self._gradients: dict[Tensor, HostCopy] = {}

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Inside the context, a backward pass leaves no gradients on the device."""
        with ExitStack() as hooks:
            for group in self.param_groups:
                for parameter in group["params"]:
                    hooks.callback(parameter.register_post_accumulate_grad_hook(self._receive).remove)
            try:
                yield
            except BaseException:
                self._gradients.clear()
                raise

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002 - the name it is known by
        """Updates one parameter after the other, in the order in which their gradients came."""
        for parameter in self._gradients:
            if parameter not in self.state:
                weight = nn.Parameter(self._link.send(parameter.detach()).host)
                self.state[parameter] = {"host": _OnHost(weight, self._make([weight]))}
        self._link.let_go()
        self._link.finish()
        for parameter, gradient in self._gradients.items():
            there: _OnHost = self.state[parameter]["host"]
            there.update(gradient.host)
            for tensor in there.tensors():
                self._link.count(tensor)
            self._link.onto_device(parameter, there.weight.detach())
        self._gradients.clear()

    def _receive(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self._gradients[parameter] = self._link.send(parameter.grad)
            parameter.grad = None


@dataclass
class _OnHost:
    """A parameter's copy on the host, and its optimizer."""

    weight: nn.Parameter
    optimizer: torch.optim.Optimizer

    def update(self, gradient: Tensor) -> None:
        self.weight.grad = gradient
        self.optimizer.step()
        self.weight.grad = None

    def tensors(self) -> Iterator[Tensor]:
        """Yields the optimizer's state."""
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))


@contextmanager
def gradients_sent(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[None]:
    """Inside the context, backward passes leave no gradients on the device for optimizers on the host."""
    with ExitStack() as receiving:
        for optimizer in optimizers:
            if isinstance(optimizer, HostOptimizer):
                receiving.enter_context(optimizer.receiving())
        yield
