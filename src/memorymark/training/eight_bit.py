"""A stand-in for bitsandbytes' 8-bit AdamW with the same memory but no kernels, for predictions to trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

# As in bitsandbytes: smaller parameters keep their state in fp32, others have one scale for each block.
SMALLEST_8BIT = 4096
BLOCK = 256
LEVELS = 256


class StandInAdamW8bit(torch.optim.Optimizer):
    """Allocates the state of ``bitsandbytes.optim.AdamW8bit`` and accesses the same tensors; values are invalid."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self._levels: list[Tensor] = []

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002 - the name it is known by
        """Updates one parameter after the other."""
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            state = self.state[parameter]
            if not state:
                state.update(self._new_state(parameter))
            for name in ("state1", "state2"):
                state[name].add_(1)
            parameter.add_(parameter.grad)

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter.numel() < SMALLEST_8BIT:
            return {name: torch.zeros_like(parameter, dtype=torch.float32) for name in ("state1", "state2")}
        if not self._levels:
            self._levels = [torch.zeros(LEVELS, device=parameter.device) for _ in range(2)]
        blocks = -(-parameter.numel() // BLOCK)
        state = {}
        for number, levels in enumerate(self._levels, 1):
            state[f"state{number}"] = torch.zeros_like(parameter, dtype=torch.uint8)
            state[f"qmap{number}"] = levels
            state[f"absmax{number}"] = torch.zeros(blocks, device=parameter.device)
        return state
