"""The optimizers of bitsandbytes, and stand-ins with the same memory but no kernels, for predictions to trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake

from memorymark.errors import UsageError
from memorymark.question.recipe import OPTIMIZER_NAMES

# As in bitsandbytes: smaller parameters keep their state in fp32, others have one scale for each block.
SMALLEST_8BIT = 4096
BLOCK = 256
LEVELS = 256
# As in bitsandbytes: the state of smaller parameters is never paged.
SMALLEST_PAGED = 100_000
PAGED = "paged-adamw8bit"
CLASSES = {"adamw8bit": "AdamW8bit", PAGED: "PagedAdamW8bit", "lion": "Lion"}


def make_bits_and_bytes(name: str, trained: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """Makes an optimizer of bitsandbytes by the recipe's name for it; on fake tensors, its stand-in."""
    if any(is_fake(parameter) for parameter in trained):
        return StandInLion(trained, lr=lr) if name == "lion" else StandInAdamW8bit(trained, lr=lr, paged=name == PAGED)
    try:
        import bitsandbytes.optim
    except ImportError:
        raise UsageError(
            f"{OPTIMIZER_NAMES[name]} needs bitsandbytes; run `pip install bitsandbytes`.",
            code="not_installed",
            field="optimizer",
            given=name,
        ) from None
    optimizer: torch.optim.Optimizer = getattr(bitsandbytes.optim, CLASSES[name])(trained, lr=lr)
    return optimizer


def paged_state_bytes(name: str, parameters: Iterable[Tensor]) -> int:
    """Returns the bytes of optimizer state in paged memory, which no allocator of torch counts.

    On the CPU bitsandbytes pages nothing; fake tensors stand for those of a GPU.
    """
    if name != PAGED:
        return 0
    on_gpu = (p for p in parameters if p.requires_grad and (is_fake(p) or p.device.type == "cuda"))
    return sum(2 * p.numel() for p in on_gpu if p.numel() >= SMALLEST_PAGED)


class StandInLion(torch.optim.Optimizer):
    """Allocates the state of ``bitsandbytes.optim.Lion``, one fp32 moment; values are invalid."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002 - the name it is known by
        """Updates one parameter after the other."""
        for parameter, gradient in _with_gradients(self):
            state = self.state[parameter]
            if not state:
                state["state1"] = torch.zeros_like(parameter, dtype=torch.float32)
            state["state1"].add_(gradient)
            parameter.add_(gradient)


class StandInAdamW8bit(torch.optim.Optimizer):
    """Allocates the state of ``bitsandbytes.optim.AdamW8bit`` and accesses the same tensors; values are invalid.

    If ``paged``, the moments of large parameters are not allocated: they are in paged memory.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, *, paged: bool = False) -> None:
        super().__init__(params, {"lr": lr})
        self._paged = paged
        self._levels: list[Tensor] = []

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002 - the name it is known by
        """Updates one parameter after the other."""
        for parameter, gradient in _with_gradients(self):
            state = self.state[parameter]
            if not state:
                state.update(self._new_state(parameter))
            for name in ("state1", "state2"):
                if name in state:
                    state[name].add_(1)
            parameter.add_(gradient)

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter.numel() < SMALLEST_8BIT:
            return {name: torch.zeros_like(parameter, dtype=torch.float32) for name in ("state1", "state2")}
        if not self._levels:
            self._levels = [torch.zeros(LEVELS, device=parameter.device) for _ in range(2)]
        blocks = -(-parameter.numel() // BLOCK)
        is_paged = self._paged and parameter.numel() >= SMALLEST_PAGED
        state = {}
        for number, levels in enumerate(self._levels, 1):
            if not is_paged:
                state[f"state{number}"] = torch.zeros_like(parameter, dtype=torch.uint8)
            state[f"qmap{number}"] = levels
            state[f"absmax{number}"] = torch.zeros(blocks, device=parameter.device)
        return state


def _with_gradients(optimizer: torch.optim.Optimizer) -> Iterable[tuple[Tensor, Tensor]]:
    return ((p, p.grad) for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
